"""Wait until the nodes have done what a revision says, and show the progress."""
