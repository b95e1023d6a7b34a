"""The state of a hub as one archive: tar and zstd."""
