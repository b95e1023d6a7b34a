"""Public hostnames on their edges: findings, whether a change has settled, and one view of each."""
