"""What we ask of the world: one small Protocol per file."""
