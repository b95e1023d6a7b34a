"""Ways to reach a hub that is another process."""
