"""Archives of services: packing, sealing and unpacking in a process of its own, and one in memory for tests."""
