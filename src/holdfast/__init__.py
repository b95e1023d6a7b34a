"""Holdfast: a fleet control plane whose hub is a mailbox, not a root of trust."""

__version__ = "0.1.0"
