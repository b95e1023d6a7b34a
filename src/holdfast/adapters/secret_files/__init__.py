"""Where opened secrets lie for containers: a directory below the run directory, or memory for tests."""
