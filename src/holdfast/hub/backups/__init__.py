"""The hub's own store of backup objects: who may read and write, how much, and what is refused."""
