"""When a node listens: as the accepted revision says (C-01, H-35), at --listen always; trouble is a finding."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.findings import Findings
from holdfast.agent.local_api.listener_switch import AGAIN_S, ListenerSwitch, Opened, Place, wanted_place
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.model.fleet import Node
from tests.fleets.virtual import VirtualLoop, run

POLL = Node("w1", ("worker",), address="100.64.0.2")
DIAL = replace(POLL, link="dial")
DIRECT = replace(POLL, direct="on")
PROVIDER = replace(POLL, roles=("worker", "provider"))
HERE = ("100.64.0.2", 9444)


@pytest.mark.parametrize(
    ("node", "own", "always", "where"),
    [
        (POLL, "", None, None),
        (POLL, "100.64.0.9", None, None),
        (DIAL, "", None, HERE),
        (DIRECT, "", None, HERE),
        (PROVIDER, "", None, HERE),
        (replace(PROVIDER, peer_calls="off"), "", None, None),
        (DIAL, "100.64.0.9:1234", None, HERE),  # what is signed comes first
        (replace(DIAL, address=""), "100.64.0.9", None, ("100.64.0.9", 9444)),
        (replace(DIAL, address=""), "[fd00::9]:1234", None, ("fd00::9", 1234)),
        (POLL, "", ("::1", 0), ("::1", 0)),
        (DIAL, "", ("::1", 0), ("::1", 0)),
    ],
)
def test_where_a_node_listens(node: Node, own: str, always: Place | None, where: Place | None) -> None:
    assert wanted_place(node, own, always) == where


@pytest.mark.parametrize("own", ["", "not an address", "100.64.0.9:99999"])
def test_without_an_address_there_is_nowhere_to_listen(own: str) -> None:
    with pytest.raises(Invalid) as told:
        wanted_place(replace(DIAL, address=""), own, None)
    assert "--address" in told.value.remedy


class Listening:
    shown = "d1"

    def __init__(self) -> None:
        self.refreshed = 0

    def refresh(self) -> None:
        self.refreshed += 1


class Street:
    """Listeners that open at once, or as `troubles` say."""

    def __init__(self) -> None:
        self.open: list[Place] = []
        self.troubles: list[Exception] = []
        self.listener = Listening()
        self.said: list[str] = []
        self.noted: list[str] = []
        self.findings = Findings(lambda: 0.0)

    def door(self, always: Place | None = None, own: str = "") -> ListenerSwitch:
        def say(event: str, _fields: dict[str, object]) -> None:
            self.said.append(event)

        return ListenerSwitch(self._serve, always, own, self.findings, say, self.noted.append)

    async def _serve(self, host: str, port: int, opened: Opened) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self.open.append((host, port))
        opened(self.listener, port)
        try:
            await asyncio.sleep(1e9)
        finally:
            self.open.remove((host, port))

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings.all()]


def scene(main: Any) -> None:
    async def played(_loop: VirtualLoop) -> None:
        await main(Street())

    run(played)


async def follow(door: ListenerSwitch, node: Node) -> None:
    door.follow(node)
    await asyncio.sleep(0.1)


def test_the_door_opens_and_shuts_with_the_accepted_revision() -> None:
    """H-35: nothing listens unless it is declared; taken back, it is shut."""

    async def main(street: Street) -> None:
        door = street.door()
        living = asyncio.ensure_future(door.run())
        await asyncio.sleep(1)
        assert street.open == [] and door.shown == ""
        for node, where in ((POLL, []), (DIAL, [HERE]), (DIRECT, [HERE]), (POLL, []), (DIAL, [HERE])):
            await follow(door, node)
            assert street.open == where and door.shown == ("d1" if where else "")
        refreshed = street.listener.refreshed
        await follow(door, DIAL)
        assert street.listener.refreshed == refreshed + 1, "a revision may change the node's name"
        await follow(door, replace(DIAL, address="100.64.0.7"))
        assert street.open == [("100.64.0.7", 9444)]
        assert street.noted == ["100.64.0.2:9444", "", "100.64.0.2:9444", "", "100.64.0.7:9444"]
        living.cancel()
        await asyncio.wait([living])
        assert street.open == [] and street.noted[-1] == ""

    scene(main)


def test_on_the_command_line_means_always_once_there_is_a_name_to_serve_under() -> None:
    async def main(street: Street) -> None:
        door = street.door(always=("::1", 9000))
        living = asyncio.ensure_future(door.run())
        await asyncio.sleep(1)
        assert street.open == []
        await follow(door, POLL)
        assert street.open == [("::1", 9000)] and street.noted == ["[::1]:9000"]
        living.cancel()

    scene(main)


@pytest.mark.parametrize(
    "trouble", [Conflict("taken", remedy="ss -ltnp", code="listen_failed"), ZeroDivisionError("ours")]
)
def test_what_cannot_be_bound_is_a_finding_and_tried_again(trouble: Exception) -> None:
    """I-03: never a dead agent."""

    async def main(street: Street) -> None:
        street.troubles = [trouble, trouble]
        door = street.door()
        living = asyncio.ensure_future(door.run())
        await follow(door, DIAL)
        (found,) = street.findings.all()
        assert found.code == "listen_failed" and found.remedy
        if isinstance(trouble, HoldfastError):
            assert (found.message, found.remedy) == ("taken", "ss -ltnp")
        await asyncio.sleep(AGAIN_S)
        assert street.codes == ["listen_failed"] and street.said == ["listen_failed"]  # said once
        await asyncio.sleep(AGAIN_S)
        assert street.open == [HERE] and street.codes == [] and not living.done()
        living.cancel()

    scene(main)


def test_a_finding_goes_when_nobody_wants_the_door_any_more() -> None:
    async def main(street: Street) -> None:
        street.troubles = [Conflict("taken", remedy="ss -ltnp")] * 100
        door = street.door()
        living = asyncio.ensure_future(door.run())
        for node in (DIAL, replace(DIAL, address="")):
            await follow(door, node)
            assert street.codes == ["listen_failed"]
            await follow(door, POLL)
            assert street.codes == []
        living.cancel()

    scene(main)


def test_a_cancellation_while_a_listener_closes_is_not_lost() -> None:
    async def main(street: Street) -> None:
        closing = asyncio.Event()

        async def slow(host: str, port: int, opened: Opened) -> None:
            try:
                await asyncio.sleep(1e9)
            finally:
                closing.set()
                await asyncio.sleep(5.0)  # for callers that are still there

        door = ListenerSwitch(slow, None, "", street.findings, lambda event, fields: None)
        living = asyncio.ensure_future(door.run())
        await follow(door, DIAL)
        door.follow(POLL)
        await closing.wait()
        living.cancel()
        assert not (await asyncio.wait([living], timeout=60.0))[1] and living.cancelled()

    scene(main)
