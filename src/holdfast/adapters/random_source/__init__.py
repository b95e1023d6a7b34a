"""Randomness: the system's, and a stream that repeats itself for tests."""
