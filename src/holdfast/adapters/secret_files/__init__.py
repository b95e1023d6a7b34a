"""Opened secrets as files for containers: below the run directory, or in memory for tests."""
