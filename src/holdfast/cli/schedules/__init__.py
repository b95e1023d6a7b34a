"""Commands about schedules of services."""
