"""A real fleet on one machine: a namespace per node, a bridge between them, and faults on request."""
