"""How values are sealed and opened: age, and a twin in memory for tests."""
