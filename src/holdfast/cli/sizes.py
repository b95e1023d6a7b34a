"""Sizes and numbers as text for people."""

from holdfast.model.size import counted, size

__all__ = ("counted", "size")
