"""Identities that decrypt secrets and backups sealed to an operator."""
