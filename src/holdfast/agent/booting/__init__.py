"""What this node does after its machine booted."""
