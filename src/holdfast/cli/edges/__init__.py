"""Commands about public hostnames."""
