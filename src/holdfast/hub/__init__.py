"""The hub: stores signed revisions and orders, verifies them, serves them. Signs nothing and decides little."""
