"""The proxy of a node."""
