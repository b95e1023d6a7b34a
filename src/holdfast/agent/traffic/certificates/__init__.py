"""Certificates of this node and of its routes."""
