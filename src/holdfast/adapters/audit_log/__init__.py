"""Append-only, hash-chained audit logs: a file of JSON lines with a separate head file, or memory."""
