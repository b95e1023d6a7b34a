"""Disks for our own files: one on a POSIX file system, one in memory."""
