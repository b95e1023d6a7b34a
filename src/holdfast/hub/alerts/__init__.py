"""Decide which troubles become alerts, and send them to people."""
