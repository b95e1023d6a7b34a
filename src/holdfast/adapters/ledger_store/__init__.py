"""Ledger stores: one in memory, one in a SQLite file."""
