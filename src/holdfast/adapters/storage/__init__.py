"""Data of services: directories below one root, or memory for tests."""
