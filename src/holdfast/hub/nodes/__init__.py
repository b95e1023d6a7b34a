"""Enrolled nodes: admission, check-in, reports, liveness."""
