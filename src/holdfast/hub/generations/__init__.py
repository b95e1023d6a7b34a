"""Which hub of a fleet is the newest: nodes follow it, and an older one stops."""
