"""Keep the services of this node as the accepted manifest says."""
