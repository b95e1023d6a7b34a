"""Commands about the volumes of services."""
