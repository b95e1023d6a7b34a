"""Stores for the revisions an agent accepted: the agent's SQLite file, or memory."""
