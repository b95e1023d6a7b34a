"""Files of a node itself that are backed up."""
