"""Clocks: the system clock, an event loop's clock, and a virtual one for tests."""
