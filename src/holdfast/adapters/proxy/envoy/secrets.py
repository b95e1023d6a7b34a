"""Certificates for Envoy: as watched secret files, or as plain files when watches are scarce.

Envoy uses one inotify instance for each watched secret file, and dies when the kernel has none left (128 per user is
usual). Beyond a share of them, chains name the certificate file directly: a renewal then makes another chain, and the
old chain's connections drain like those of any removed chain.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.adapters.proxy.envoy.files import EnvoyFiles, Written, secret_file
from holdfast.adapters.proxy.envoy.listeners import Shown
from holdfast.adapters.proxy.envoy.names import listed, raw, secret_name, typed
from holdfast.adapters.proxy.refusals import no_certificate
from holdfast.ports.proxy import ProxyRoute, Servable

INSTANCES = "/proc/sys/fs/inotify/max_user_instances"
SHARE = 8  # use at most 1/8 of this user's inotify instances
WATCHED_MAX = 256


class Had(Protocol):
    def same(self, name: str, content: bytes) -> Written | None: ...

    def whatever(self, name: str) -> Written | None: ...


def check(routes: Sequence[ProxyRoute], certificates: Mapping[str, Servable]) -> None:
    missing = {route.certificate for route in routes if route.mode == "l7"} - certificates.keys()
    if missing:
        raise no_certificate(missing)


class Secrets:
    def __init__(self, files: EnvoyFiles, watched_max: int | None = None) -> None:
        self._files = files
        self._watched_max = room() if watched_max is None else watched_max

    def watched(self, routes: Sequence[ProxyRoute]) -> set[str]:
        """The files that Envoy watches and reads again after a renewal."""
        names = sorted({secret_name(one) for one in routes if one.mode == "l7"})
        return {secret_file(name) for name in names[: self._watched_max]}

    def put(
        self,
        routes: Sequence[ProxyRoute],
        certificates: Mapping[str, Servable] | None,
        had: Had,
        written: dict[str, Written],
    ) -> dict[ProxyRoute, Shown]:
        """Writes new certificates, records all of them in `written`, and returns each chain's file. None for
        certificates: all of them are written already."""
        watched = self.watched(routes)
        found = {}
        for route in routes:
            if route.mode == "l7":
                proof = None if certificates is None else certificates[route.certificate]
                name = secret_file(secret_name(route))
                if name in watched:
                    written[name] = self._put_watched(route, name, proof, had)
                else:
                    name = f"secrets/{secret_name(route)}-{route.certificate[:24]}.pem"
                    written[name] = self._put_named(route, name, proof, had)
                found[route] = Shown(self._files.path(name), name in watched)
        return found

    def _put_watched(self, route: ProxyRoute, name: str, proof: Servable | None, had: Had) -> Written:
        if proof is None:
            return _there(had.whatever(name), route)
        content = listed([raw(_secret(secret_name(route), proof))])
        return had.same(name, content) or self._files.put(name, content, flushed=False)

    def _put_named(self, route: ProxyRoute, name: str, proof: Servable | None, had: Had) -> Written:
        """The name contains the digest, so an existing file has the right content."""
        if (kept := had.whatever(name)) is not None:
            return kept
        if proof is None:
            return _there(None, route)
        return self._files.put_bytes(name, proof.chain.rstrip(b"\n") + b"\n" + proof.private)


def _there(found: Written | None, route: ProxyRoute) -> Written:
    if found is None:
        raise no_certificate({route.certificate})
    return found


def _secret(name: str, proof: Servable) -> dict[str, object]:
    content = {
        "certificate_chain": {"inline_string": proof.chain.decode("ascii")},
        "private_key": {"inline_string": proof.private.decode("ascii")},
    }
    return typed("extensions.transport_sockets.tls.v3.Secret", name=name, tls_certificate=content)


def room() -> int:
    try:
        with open(INSTANCES, encoding="ascii") as file:
            return min(int(file.read()) // SHARE, WATCHED_MAX)
    except (OSError, ValueError):
        return 0
