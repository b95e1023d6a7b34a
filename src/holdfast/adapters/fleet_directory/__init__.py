"""Where a fleet is written down: a directory on disk, or a dictionary in a test."""
