"""The direct way between the two nodes of a move."""
