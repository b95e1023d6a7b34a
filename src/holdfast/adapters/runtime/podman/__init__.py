"""The container runtime as podman, over its REST API."""
