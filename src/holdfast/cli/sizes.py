"""Sizes and numbers as text for people."""

from holdfast.model.size import size

__all__ = ("counted", "size")


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
