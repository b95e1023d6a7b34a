"""The public certificate authority over ACME."""
