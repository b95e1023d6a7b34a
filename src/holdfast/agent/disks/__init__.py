"""The disks of a node, and whether they fill up."""
