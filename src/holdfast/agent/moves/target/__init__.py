"""The node that takes a service over."""
