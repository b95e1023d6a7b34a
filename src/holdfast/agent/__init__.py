"""The agent: checks in, accepts what operators signed, runs their orders once, tells the truth. It always dials."""
