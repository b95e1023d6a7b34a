"""TLS 1.3 and nothing older: contexts of servers and of clients, and the check of who answered."""
