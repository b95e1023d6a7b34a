"""Commands about sealed secrets."""
