"""Services: findings about them, and whether a change of one has settled."""
