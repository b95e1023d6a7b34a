"""Times as RFC 3339 text."""


def rfc3339(seconds: float) -> str:
    from time import gmtime, strftime

    sane = min(max(seconds, 0), 253402300799)  # years 1970 to 9999; a hub may send any number
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(sane))
