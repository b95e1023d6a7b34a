"""Disks for files of our own: one on a POSIX file system, one in memory."""
