"""Backups that a command of the service makes."""
