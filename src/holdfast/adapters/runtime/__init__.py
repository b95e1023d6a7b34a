"""What runs containers: podman, and a twin in memory."""
