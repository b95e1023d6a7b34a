"""Commands that run on a node."""
