"""Names of routes, clusters, chains and secrets in Envoy, derived from their content. Pure."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from holdfast.ports.proxy import ProxyRoute

INTERNAL, PUBLIC, PLAIN = "internal", "public", "plain"  # kinds of listeners; each has its own request routes


CACHED = 8192  # routes: usually all but one of two thousand are unchanged from the previous set


def digest(value: object, characters: int = 12) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:characters]


def listed(resources: Iterable[msgspec.Raw]) -> bytes:
    return b"[" + b",".join(bytes(one) for one in resources) + b"]"


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def kind_of(route: ProxyRoute) -> str:
    return PUBLIC if route.public else INTERNAL


def place_of(route: ProxyRoute) -> str:
    return f"{route.service}/{route.component}/{route.route}"


@lru_cache(CACHED)
def cluster_name(route: ProxyRoute) -> str:
    """Other backends make another cluster: a switch goes from one existing cluster to another, never in place."""
    inside = (route.mode, route.public, sorted(route.backends), route.protocol, route.upstream)
    return f"{place_of(route)}/{digest(inside)}"


@lru_cache(CACHED)
def secret_name(route: ProxyRoute) -> str:
    """Derived from what the certificate is for, not from its content: a renewal keeps the name."""
    return digest((kind_of(route), route.listener, sorted(route.hostnames)), 24)


def chain_name(route: ProxyRoute) -> str:
    return f"{place_of(route)}/{secret_name(route)}"


def typed(package: str, **fields: object) -> dict[str, object]:
    return {"@type": f"type.googleapis.com/envoy.{package}", **fields}


def extension(name: str, package: str, **fields: object) -> dict[str, object]:
    return {"name": name, "typed_config": typed(package, **fields)}


def file_source(path: str, **fields: object) -> dict[str, object]:
    """A file that Envoy reads, and reads again whenever another file is moved in its place."""
    return {"path_config_source": {"path": path}, "resource_api_version": "V3", **fields}


def socket_address(address: str, port: int) -> dict[str, object]:
    return {"socket_address": {"address": address, "port_value": port}}
