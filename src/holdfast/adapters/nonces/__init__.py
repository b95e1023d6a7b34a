"""Where requests already taken are remembered: in a file that survives the power cut, or in memory for tests."""
