"""Append-only, hash-chained logs: one file of JSON lines with its head kept apart, or a list in memory."""
