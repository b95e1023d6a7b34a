"""Queues of signed orders and the relay of their streams."""
