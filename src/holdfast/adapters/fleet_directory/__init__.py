"""The operator's fleet files: a directory on disk, or a dictionary in tests."""
