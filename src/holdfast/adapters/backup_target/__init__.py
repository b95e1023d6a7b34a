"""Places that store the objects of backups."""
