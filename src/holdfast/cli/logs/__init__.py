"""`holdfast logs`: lines of a service from all its nodes."""
