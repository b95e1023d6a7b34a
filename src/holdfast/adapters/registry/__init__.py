"""Registries that resolve image tags to digests: any OCI registry, or a dictionary."""
