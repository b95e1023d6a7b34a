"""Health probes of containers: over the network, by a command, or scripted in memory."""
