"""What opens secrets and backups that were sealed to an operator."""
