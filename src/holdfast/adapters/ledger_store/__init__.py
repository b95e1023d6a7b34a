"""Ledger stores: one in memory, one in an SQLite file."""
