"""Public hostnames that this node serves as an edge."""
