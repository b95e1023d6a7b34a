"""The composition root: one file per process it builds. Only these files know products."""
