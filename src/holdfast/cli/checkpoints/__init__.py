"""Commands about the checkpoints of services."""
