"""The hub: keeps what operators signed, checks it again, hands it out. Decides nothing, originates almost nothing."""
