"""Stores for route certificates between restarts: files readable by root only, or memory."""
