"""Ways to tell a person: a webhook, whatever Apprise speaks, a command on the hub's machine, a list in memory."""
