"""Parse image references and registry URLs, and decide where plain HTTP is allowed. Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

HUB = "docker.io"
_host = re.compile(r"[a-z0-9]([a-z0-9.-]{0,252}[a-z0-9])?(:[1-9][0-9]{0,4})?\Z", re.ASCII | re.IGNORECASE)
_name = re.compile(r"[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*)*\Z")
_tag = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")
_parameter = re.compile(r'([a-z]+)="([^"]*)"', re.IGNORECASE)


class Image(Struct, frozen=True):
    """A reference as docker reads it: `host` is the written form, which is also the key of credentials."""

    host: str
    name: str
    tag: str


class Origin(Struct, frozen=True):
    host: str
    port: int
    secure: bool


def parse(reference: str) -> Image | None:
    """None if it is not a tag in a registry: malformed, or pinned by digest, which needs no request."""
    first, slash, rest = reference.partition("/")
    named = bool(slash) and ("." in first or ":" in first or first == "localhost")
    host, path = (first, rest) if named else (HUB, reference)
    name, colon, tag = path.partition(":")
    if host == "index.docker.io":
        host = HUB
    if host == HUB and "/" not in name:
        name = f"library/{name}"
    if not (_host.match(host) and _name.match(name) and _tag.match(tag if colon else "latest")):
        return None
    return Image(host, name, tag if colon else "latest")


def origin_of(image: Image) -> Origin:
    host, colon, port = ("registry-1.docker.io" if image.host == HUB else image.host).partition(":")
    secure = not may_be_plain(host)
    return Origin(host, int(port) if colon else 443 if secure else 80, secure)


def may_be_plain(host: str) -> bool:
    """This machine, or an overlay address, where the overlay encrypts. Never a name, which DNS could redirect."""
    numbers = _ipv4(host)
    return is_loopback(host) or (numbers[:1] == (100,) and 64 <= numbers[1] <= 127)


def is_loopback(host: str) -> bool:
    return host == "localhost" or _ipv4(host)[:1] == (127,)


def _ipv4(host: str) -> tuple[int, ...]:
    parts = host.split(".")
    plain = len(parts) == 4 and all(part.isascii() and part.isdigit() and str(int(part)) == part for part in parts)
    numbers = tuple(map(int, parts)) if plain else ()
    return numbers if all(number <= 255 for number in numbers) else ()


def challenge(values: Sequence[str], scheme: str) -> dict[str, str] | None:
    """The parameters of the first challenge of that scheme among the WWW-Authenticate headers."""
    for value in values:
        kind, _, rest = value.strip().partition(" ")
        if kind.lower() == scheme:
            return {key.lower(): text for key, text in _parameter.findall(rest)}
    return None


def parsed_url(url: str) -> tuple[Origin, str] | None:
    """Origin and target of a URL; None unless it is https, or http to a host where plain HTTP is allowed."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    if not _host.match(host) or not (secure or (parts.scheme == "http" and may_be_plain(host))):
        return None
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Origin(host, parts.port or (443 if secure else 80), secure), target
