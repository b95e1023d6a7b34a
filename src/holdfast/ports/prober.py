"""One question to a container on this machine. Bounded in time; never raises for a bad answer."""

from typing import Protocol

from msgspec import Struct

from holdfast.model.container import Container
from holdfast.model.fleet import Health
from holdfast.ports.allowed import Allowed


class Verdict(Struct, frozen=True):
    ok: bool
    why: str = ""  # what was wrong, as a sentence


class Snapshotted(Struct, frozen=True):
    """`path`: of the file that it made, in its container; "" if it names none."""

    ok: bool
    why: str = ""
    path: str = ""


class Prober(Protocol):
    async def probe(self, container: Container, health: Health, allowed: Allowed | None = None) -> Verdict:
        """http: a status of 200–399; tcp: a connection; grpc: grpc.health.v1 SERVING; exec: exit code 0, for which the
        gate must have allowed it."""
        ...

    async def snapshot(self, container: Container, port: int, timeout_s: float, allowed: Allowed) -> Snapshotted:
        """Ask it to make its files ready for a copy: holdfast.v1.SnapshotService over gRPC without TLS."""
        ...
