"""Needs of the services of this node: asked for at their providers, delivered to containers, and told."""
