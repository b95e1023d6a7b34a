"""Looks whether something answers."""
