"""Commands about the hub, its ledger and its tokens."""
