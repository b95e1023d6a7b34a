"""Make and read certificates: the hub's, a node's issuing certificate, and the leaves it signs."""
