"""Durations as people write them ("90s", "24h", "7d") and the milliseconds they mean. Pure."""

PATTERN = r"^[1-9][0-9]{0,6}(ms|s|m|h|d)$"

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str) -> int:
    unit = text.lstrip("0123456789")
    return int(text[: -len(unit)]) * _UNIT_MS[unit]
