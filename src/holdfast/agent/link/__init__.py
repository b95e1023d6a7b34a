"""The conversation with the hub: check-in, report, order results, audit copy."""
