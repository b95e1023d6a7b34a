"""DNS servers for a fleet's internal names: dnsmasq, or memory for tests."""
