"""Serve one request: checks in their order, body, handler, response. Decides nothing about the fleet."""
