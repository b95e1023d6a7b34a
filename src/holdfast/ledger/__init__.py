"""The rules of revisions as they are kept: key layout, order, integrity, recovery, readiness to serve. Pure."""
