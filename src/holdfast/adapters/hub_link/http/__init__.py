"""The hub over HTTPS."""
