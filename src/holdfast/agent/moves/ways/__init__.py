"""The two ways between the nodes of a move: directly, or through the hub."""
