"""DNS records that this node serves."""
