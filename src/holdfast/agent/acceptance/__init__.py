"""Verify and accept signed revisions; grade what a manifest changes."""
