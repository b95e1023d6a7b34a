"""Times as RFC 3339 text."""

from holdfast.errors import Invalid


def rfc3339(seconds: float) -> str:
    from time import gmtime, strftime

    sane = min(max(seconds, 0), 253402300799)  # years 1970 to 9999; a hub may send any number
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(sane))


def moment(text: str, flag: str) -> float:
    """Seconds of a time that a person wrote, with its zone."""
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None or found.timestamp() < 0:
            raise ValueError(text)
        return found.timestamp()
    except (ValueError, OverflowError):
        raise Invalid(
            f"{flag} {text!r} is not a time",
            remedy=f"write a time with its zone: {flag} 2026-03-01T12:00:00Z",
            code="usage",
        ) from None
