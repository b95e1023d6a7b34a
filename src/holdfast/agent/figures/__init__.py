"""Figures about the data of services, for plans: how much a checkpoint copies, and how long the service is down."""
