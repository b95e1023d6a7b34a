"""Drills: backups are proven by restoring them beside the service, at their times and by order."""
