"""Backups: made at their times and by order, stored on targets, and brought back by order."""
