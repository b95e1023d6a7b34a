"""Drive one service to its target, step by step."""
