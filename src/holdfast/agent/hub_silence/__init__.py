"""Alerts that a node sends itself when it does not hear its hub."""
