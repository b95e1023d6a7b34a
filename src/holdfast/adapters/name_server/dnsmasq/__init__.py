"""The name server as a dnsmasq process."""
