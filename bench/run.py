"""`python bench/run.py`: every measurement. Finds the package and leaves the rest to measurements.py."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench.measurements import main

if __name__ == "__main__":
    sys.exit(main())
