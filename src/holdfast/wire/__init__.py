"""The messages and errors of the hub's HTTP interface, and their encoding."""
