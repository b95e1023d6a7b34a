"""Lines from an agent to its hub: over HTTPS, or to a hub in the same process."""
