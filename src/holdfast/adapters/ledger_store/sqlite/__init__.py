"""The ledger as one SQLite file."""
