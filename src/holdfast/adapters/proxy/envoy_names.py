"""How routes, clusters, chains and secrets are called in Envoy: names that say what they stand for. Pure."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from holdfast.ports.proxy import ProxyRoute

INTERNAL, PUBLIC, PLAIN = "internal", "public", "plain"  # kinds of listeners; each has request routes of its own


CACHED = 8192  # routes: a set is built from its parts, and all but one of two thousand are those of the set before


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
    """Other backends are another cluster: a switch is a flip between two that both exist, never a change of one."""
    inside = (route.mode, route.public, sorted(route.backends), route.protocol, route.upstream)
    return f"{place_of(route)}/{digest(inside)}"


@lru_cache(CACHED)
def secret_name(route: ProxyRoute) -> str:
    """Of what the certificate is for, not of the certificate: a renewal is new content under the same name."""
    return digest((kind_of(route), route.listener, sorted(route.hostnames)), 24)


def chain_name(route: ProxyRoute) -> str:
    return f"{place_of(route)}/{secret_name(route)}"


def typed(package: str, **fields: object) -> dict[str, object]:
    return {"@type": f"type.googleapis.com/envoy.{package}", **fields}


def extension(name: str, package: str, **fields: object) -> dict[str, object]:
    return {"name": name, "typed_config": typed(package, **fields)}


def file_source(path: str, **fields: object) -> dict[str, object]:
    """Where Envoy reads something from, and reads it anew whenever another file is moved there."""
    return {"path_config_source": {"path": path}, "resource_api_version": "V3", **fields}


def socket_address(address: str, port: int) -> dict[str, object]:
    return {"socket_address": {"address": address, "port_value": port}}
