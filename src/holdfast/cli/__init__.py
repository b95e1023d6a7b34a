"""The command line: one file per noun or verb. It parses, asks and shows; lower rooms decide."""
