"""Verify signed orders, run each once, recover after a crash."""
