"""The command line: one file per noun or verb. Parses, asks, shows; the deciding happens in lower rooms."""
