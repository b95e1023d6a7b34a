"""Where certificates of routes lie between restarts: files for root alone, or memory for tests."""
