"""Proxies of a node: Envoy, or memory for tests and nodes without one."""
