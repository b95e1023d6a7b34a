"""curl as a client outside the fleet: which names it resolves how, and whom it trusts. Pure."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from holdfast.errors import Invalid
from holdfast.lab.blueprint import PUBLIC_DOMAIN, Blueprint


def arguments(url: str, blueprint: Blueprint, bundle: str | None, more: Sequence[str]) -> list[str]:
    trust = ["--cacert", bundle] if bundle is not None else []
    return ["curl", "--fail", "--silent", "--show-error", *trust, *_names(url, blueprint), *more, url]


def _names(url: str, blueprint: Blueprint) -> list[str]:
    """Public names lead to the edge, a node's name to the node; a redirect from http to https is followed, too."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(f"{url!r} is no URL", remedy="write it like https://hello.example.test/") from None
    address = _address(host, blueprint)
    if address is None:
        return []
    ports = dict.fromkeys([port or 443, 443, 80])
    return [word for one in ports for word in ("--resolve", f"{host}:{one}:{address}")]


def _address(host: str, blueprint: Blueprint) -> str | None:
    if host == PUBLIC_DOMAIN or host.endswith(f".{PUBLIC_DOMAIN}"):
        edges = [site.address for site in blueprint.sites if "edge" in site.roles]
        return ",".join(edges) or None
    return next((site.address for site in blueprint.sites if site.name == host), None)
