"""Random bytes: from the system, or a repeatable sequence for tests."""
