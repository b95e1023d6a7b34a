"""Mounts storage targets by UUID: what the agent asks for and may not do itself. A program with a unit of its own."""
