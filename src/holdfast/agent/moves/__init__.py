"""Services that move to this node or away from it, with their data."""
