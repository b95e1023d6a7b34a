"""Sizes and numbers as text for people."""

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(size_bytes: int) -> str:
    value, unit = float(size_bytes), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if unit == 0 or value >= 100 else f"{value:.1f} {UNITS[unit]}"


def counted(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun}{'s' * (count != 1)}"
