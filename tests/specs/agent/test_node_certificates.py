"""The serving certificate: renewed when somebody asks, kept over restarts, renewed again when it is due (M-26)."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.agent.traffic.certificates.node import IssuerReport, NodeCertificates
from holdfast.errors import NotPermitted
from holdfast.model.certificate import DAY_S
from holdfast.model.fleet import Node, Settings
from tests.fleets.build import START_S

NODE = Node("w1", ("worker",))
SETTINGS = Settings("lab", internal_zone="svc.lab.test")


class Shop:
    shown = "seen"

    def __init__(self) -> None:
        self.looked = 0
        self.followed: list[Node] = []

    def follow(self, node: Node) -> None:
        self.followed.append(node)

    def refresh(self) -> None:
        self.looked += 1

    async def run(self) -> None:
        """Nothing is listened for."""


def started(state: Path, clock: VirtualClock, door: Shop | None = None) -> NodeCertificates:
    keeper = NodeCertificates(X509Certificates(str(state), PosixDisk()), clock, door or Shop())
    keeper.prepare(NODE, SETTINGS)
    return keeper


def test_one_asked_for_is_kept_over_a_restart_and_renewed_when_due(tmp_path: Path) -> None:
    clock, door = VirtualClock(START_S), Shop()
    keeper = started(tmp_path, clock, door)
    first = keeper.serving().facts.digest
    said = asyncio.run(keeper.renew())
    second = keeper.serving().facts.digest
    assert second != first and second[:12] in said
    assert door.looked == 1, "the listener was not told"
    assert started(tmp_path, clock).serving().facts.digest == second, "a restart forgot it"
    clock.advance(61 * DAY_S)  # a third of 90 days is left
    third = keeper.serving().facts.digest
    assert third not in (first, second), "one that was asked for stays for ever"
    assert started(tmp_path, clock).serving().facts.digest == third


def test_another_zone_is_another_name_and_the_door_is_told(tmp_path: Path) -> None:
    door = Shop()
    keeper = started(tmp_path, VirtualClock(START_S), door)
    assert keeper.serving().facts.names == ("w1.nodes.svc.lab.test",)
    asyncio.run(keeper.renew())
    keeper.prepare(NODE, replace(SETTINGS, internal_zone="other.test"))
    assert keeper.serving().facts.names == ("w1.nodes.other.test",)
    assert door.followed == [NODE, NODE]
    assert keeper.section().serving == "seen"


def test_before_the_first_revision_there_is_nothing_to_serve_or_to_renew(tmp_path: Path) -> None:
    keeper = NodeCertificates(X509Certificates(str(tmp_path), PosixDisk()), VirtualClock(START_S))
    with pytest.raises(NotPermitted):
        keeper.serving()
    assert "no revision" in asyncio.run(keeper.renew())
    assert keeper.section() == IssuerReport() and list(tmp_path.iterdir()) == []
