"""A machine's own signing key: in a file that only its owner can read, or in memory for tests."""
