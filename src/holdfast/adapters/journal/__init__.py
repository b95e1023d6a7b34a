"""The agent's journal of operations and facts: in a SQLite file, or in memory for tests."""
