"""The node that hands a service over."""
