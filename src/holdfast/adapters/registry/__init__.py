"""Registries that say which digest an image tag stands for: any OCI registry, or a dictionary."""
