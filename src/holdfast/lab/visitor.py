"""Arguments for curl as a client outside the fleet: host, address, trusted certificates. Pure."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from holdfast.errors import Invalid


def asked(url: str) -> tuple[str, int | None]:
    """Host and port of a URL as curl reads it: without a scheme it is plain HTTP."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        return parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(f"{url!r} is not a URL", remedy="write it like https://hello.example.test/") from None


def stays_plain(url: str, more: Sequence[str]) -> bool:
    """No TLS at any point, so no CA certificate is needed."""
    return not url.lower().startswith("https:") and not any(map(_follows, more))


def _follows(word: str) -> bool:
    """--location, or an L among short flags."""
    return word.startswith("--location") or (word[:1] == "-" and word[:2] != "--" and "L" in word)


def arguments(url: str, address: str | None, bundle: str | None, more: Sequence[str]) -> list[str]:
    """`address` is the host's address; None lets curl resolve it."""
    trust = ["--cacert", bundle] if bundle is not None else []
    return ["curl", "--fail", "--silent", "--show-error", *trust, *_names(url, address), *more, url]


def _names(url: str, address: str | None) -> list[str]:
    """Also covers a redirect from http to https."""
    host, port = asked(url)
    ports = dict.fromkeys([port or 443, 443, 80]) if address is not None else ()
    return [word for one in ports for word in ("--resolve", f"{host}:{one}:{address}")]
