"""Where an agent keeps what it accepted: in the same SQLite file as its journal, or in memory."""
