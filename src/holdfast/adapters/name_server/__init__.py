"""DNS servers that answer for a fleet's internal names."""
