"""What an agent may do with which authority: one table, nothing to configure, nothing taken from outside."""
