"""Backups that a command of the service makes, and their way back."""
