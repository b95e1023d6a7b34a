"""Where an agent remembers what it is doing: a SQLite file, or a dictionary for tests."""
