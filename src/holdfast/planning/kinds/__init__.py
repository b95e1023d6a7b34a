"""Resource kinds: each is one value of pure functions; `every.py` lists them."""
