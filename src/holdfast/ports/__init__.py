"""The ports: what the core needs from outside, one small Protocol per file."""
