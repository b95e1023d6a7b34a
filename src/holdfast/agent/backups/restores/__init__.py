"""Backups brought back by order, with a container that loads a dump."""
