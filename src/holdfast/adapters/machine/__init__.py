"""The machine below an agent: Linux, or whatever a test says it is."""
