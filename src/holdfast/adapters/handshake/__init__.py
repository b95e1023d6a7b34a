"""Real handshakes over TLS, and a world in memory where they are only imagined."""
