"""Public certificate authorities: ACME, and one in memory for tests."""
