"""What the SQLite files of the hub and of the agent share: group commits, errors, and the agent's one file."""
