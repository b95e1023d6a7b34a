"""The agent's thinking, pure: what must be here × what is here → what to do. Knows no product, no clock."""
