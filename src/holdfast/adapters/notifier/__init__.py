"""Notifiers that deliver alerts: a webhook, Apprise, a command on the hub's machine, or memory."""
