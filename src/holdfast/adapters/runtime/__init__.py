"""Container runtimes: podman, and one in memory for tests."""
