"""Move services with their data to other nodes."""
