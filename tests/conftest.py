"""Makes tests/fleets importable, so that every test can share its builders: `from build import small_fleet`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("fleets")))
