"""The agent: checks in, accepts signed revisions, runs signed orders once, reports what it observes."""
