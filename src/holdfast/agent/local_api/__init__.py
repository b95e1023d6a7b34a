"""The agent's own HTTP API, closed on nodes that only poll."""
