"""Secrets of the services of a node: opened for a container, and those of older releases."""
