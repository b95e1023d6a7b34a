"""Commands about what services need of other nodes, and what these gave."""
