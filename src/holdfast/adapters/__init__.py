"""One folder per port, one file per product that answers it."""
