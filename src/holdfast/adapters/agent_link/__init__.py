"""Calling nodes that let themselves be called: over HTTPS, and in memory."""
