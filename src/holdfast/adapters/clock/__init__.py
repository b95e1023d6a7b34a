"""Clocks: the system's, and one that tests turn by hand."""
