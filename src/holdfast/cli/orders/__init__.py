"""Commands about signed orders."""
