"""Whether the long cases run in full: `make test` runs the smallest counts, `make soak` the full ones."""

import os

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
