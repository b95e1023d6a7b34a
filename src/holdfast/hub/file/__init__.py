"""A hub's state as one sealed file."""
