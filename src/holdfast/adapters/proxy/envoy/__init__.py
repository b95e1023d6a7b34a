"""The proxy as an Envoy process that reads its configuration from files."""
