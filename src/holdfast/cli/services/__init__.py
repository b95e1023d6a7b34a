"""Commands about services and their containers."""
