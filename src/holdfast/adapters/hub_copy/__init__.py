"""The sealed file of the hub, fetched by a node."""
