"""Declared documents that are written from the ledger into files."""
