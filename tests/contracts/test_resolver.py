"""Every resolver says where a name leads according to the servers it is given, and never waits longer than told."""

import asyncio
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from holdfast.adapters.name_server.dnsmasq.server import Dnsmasq
from holdfast.adapters.resolver.dnspython import DnspythonResolver
from holdfast.adapters.resolver.memory import MemoryResolver
from holdfast.errors import TryLater
from holdfast.ports.name_server import Resolver, Serving
from tests.fleets.waiting import Stopwatch

ZONE = "holdfast.internal"
WEB, SIX = f"web.shop.{ZONE}", f"six.shop.{ZONE}"
RECORDS = {WEB: "100.64.0.1", SIX: "fd7a::6"}


class Scene(Protocol):
    resolver: Resolver
    server: str
    silent: str

    def serve(self, records: Mapping[str, str]) -> None: ...
    def end(self) -> None: ...


class MemoryScene:
    server, silent = "100.64.0.1", "100.64.0.9"

    def __init__(self) -> None:
        self.memory = MemoryResolver()
        self.resolver: Resolver = self.memory

    def serve(self, records: Mapping[str, str]) -> None:
        self.memory.known[self.server] = {name: (address,) for name, address in records.items()}

    def end(self) -> None:
        self.memory.known.clear()


class DnspythonScene:
    def __init__(self) -> None:
        self.server, self.silent = (f"127.{n}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}" for n in (55, 56))
        self.resolver: Resolver = DnspythonResolver()
        self._directory = Path("/tmp") / f"holdfast-resolver-{os.getpid()}-{time.monotonic_ns()}"
        self._dnsmasq = Dnsmasq(str(self._directory))
        self._deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._deaf.bind((self.silent, 53))

    def serve(self, records: Mapping[str, str]) -> None:
        asyncio.run(self._serve(records))

    async def _serve(self, records: Mapping[str, str]) -> None:
        await self._dnsmasq.follow(Serving(self.server, ZONE, ("127.0.0.1",)))
        await self._dnsmasq.apply(records)

    def end(self) -> None:
        self._deaf.close()
        asyncio.run(self._dnsmasq.follow(None))
        shutil.rmtree(self._directory, ignore_errors=True)


@pytest.fixture(params=[MemoryScene, DnspythonScene])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    found: Scene = request.param()
    found.serve(RECORDS)
    yield found
    found.end()


def ask(scene: Scene, name: str, *servers: str, at_most_s: float = 5.0) -> tuple[str, ...]:
    return asyncio.run(scene.resolver.addresses(name, servers, at_most_s))


def test_a_name_leads_where_its_server_says(scene: Scene) -> None:
    """D-27: the edge asks its own DNS server before it makes a route."""
    assert ask(scene, WEB, scene.server) == ("100.64.0.1",)
    assert ask(scene, SIX, scene.server) == ("fd7a::6",)
    assert ask(scene, WEB.upper(), scene.server) == ("100.64.0.1",)


def test_a_name_that_does_not_exist_has_no_addresses(scene: Scene) -> None:
    assert ask(scene, f"nobody.{ZONE}", scene.server) == ()
    assert ask(scene, f"{'x' * 64}.{ZONE}", scene.server) == ()


def test_every_question_is_asked_anew(scene: Scene) -> None:
    assert ask(scene, WEB, scene.server) == ("100.64.0.1",)
    scene.serve({WEB: "100.64.0.2"})
    assert ask(scene, WEB, scene.server) == ("100.64.0.2",)


def test_nobody_who_answers_is_told_in_time(scene: Scene) -> None:
    """M-80 only warns, and D-27 skips with a reason: neither may hang."""
    watch = Stopwatch()
    with pytest.raises(TryLater) as told:
        ask(scene, WEB, scene.silent, at_most_s=0.5)
    assert WEB in told.value.message and told.value.remedy.startswith("check it yourself: dig")
    assert watch.within(10)


def test_the_second_server_is_asked_when_the_first_is_silent(scene: Scene) -> None:
    assert ask(scene, WEB, scene.silent, scene.server, at_most_s=3.0) == ("100.64.0.1",)
