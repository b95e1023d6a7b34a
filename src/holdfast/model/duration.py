"""Durations as people write them ("90s", "24h", "7d") and as they read them ("5 min"). Pure."""

from functools import lru_cache

PATTERN = r"^[1-9][0-9]{0,6}(ms|s|m|h|d)$"

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@lru_cache(1024)
def milliseconds(text: str) -> int:
    unit = text.lstrip("0123456789")
    return int(text[: -len(unit)]) * _UNIT_MS[unit]


def aged(seconds: float) -> str:
    """An age in its largest fitting unit."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"
