"""Ends of a stream through a hub: TLS 1.3 between a person's command and a node, inside whatever the hub relays."""
