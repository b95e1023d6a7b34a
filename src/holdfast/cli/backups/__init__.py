"""The noun «backups»: made by order, listed, read back, restored."""
