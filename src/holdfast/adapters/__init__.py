"""Adapters: one folder per port, one module per product that implements it."""
