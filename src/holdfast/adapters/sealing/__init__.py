"""Sealing and opening secret values: age, and one in memory for tests."""
