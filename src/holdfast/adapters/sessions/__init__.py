"""Stores for an operator's sessions between two commands: files, or memory."""
