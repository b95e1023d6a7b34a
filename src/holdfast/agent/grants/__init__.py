"""What this node gives to needs of services on other nodes, and when it takes that back."""
