"""Keep proxy, certificates, edges and DNS as the accepted manifest says."""
