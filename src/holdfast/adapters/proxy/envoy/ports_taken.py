"""Check whether another process holds a port before Envoy is configured, so that other ports are served."""

import errno
import socket
from collections.abc import Sequence
from contextlib import suppress

from holdfast.adapters.proxy.envoy.listeners import Spot
from holdfast.errors import TryLater

IP_FREEBIND = 15
TAKEN = "another process listens on it"


def complaint(address: str, port: int) -> str:
    """Why the proxy cannot listen there; "" if it can or already does, since it may share its own sockets."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        with suppress(OSError):
            tried.setsockopt(socket.SOL_IP, IP_FREEBIND, 1)
        try:
            tried.bind((address, port))
        except OSError as trouble:
            return TAKEN if trouble.errno == errno.EADDRINUSE else ""  # for other errors Envoy's own message is used
    return ""


def named(refusal: str, spots: Sequence[Spot]) -> Spot | None:
    """The listener that Envoy reports it could not open."""
    if "cannot bind" not in refusal:
        return None
    return next((spot for spot in spots if f"{spot.address}:{spot.port}'" in refusal), None)


def port_taken(address: str, port: int, why: str) -> TryLater:
    return TryLater(
        f"the proxy cannot listen on {address} port {port}: {why}",
        remedy=f"find that process with `ss -ltnp 'sport = :{port}'`, and stop it or move it to another port",
        code="proxy_port_taken",
    )
