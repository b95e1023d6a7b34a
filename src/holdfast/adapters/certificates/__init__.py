"""Makers and readers of certificates: the hub's own, a node's issuing one, and what that issues."""
