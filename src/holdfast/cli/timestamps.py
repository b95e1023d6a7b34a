"""Instants as people and programs read them."""


def rfc3339(seconds: float) -> str:
    from time import gmtime, strftime

    sane = min(max(seconds, 0), 253402300799)  # years 1970 to 9999; a hub may say anything
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(sane))
