"""Commands about the lab, a real fleet on one machine."""
