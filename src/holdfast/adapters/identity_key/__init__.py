"""Where a machine's own key lies: in a file that only it may read, or in memory for tests."""
