"""TLS handshakes with a server: over the network, or simulated in memory."""
