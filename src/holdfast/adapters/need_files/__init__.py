"""Values of needs as files for containers."""
