"""Commands about the fleet directory and its signed revisions."""
