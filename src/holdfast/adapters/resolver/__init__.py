"""Whoever asks DNS servers."""
