"""Nodes follow the newest hub: a restored one, by the operators' signature; an old one stops (issue 16 §5)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from holdfast.adapters.high_water.memory import MemoryHighWater
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.agent.link.followed_hub import FACT
from holdfast.errors import Corrupt, HoldfastError
from holdfast.hub.generations import stored
from holdfast.hub.ledger.boot import boot
from holdfast.hub.ledger.ledger_check import examine
from holdfast.hub.ledger.restore import restore
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.checkin import CheckIn, CheckInAnswer
from holdfast.model.hub_generation import NAMESPACE, Generation, SignedGeneration
from holdfast.model.principal import Principal
from holdfast.ports.ledger_store import Transaction
from holdfast.ports.signer import Signer
from tests.fleets.agents import Machine
from tests.fleets.build import ALICE_SIGNER, operator_signer, small_fleet
from tests.fleets.desks import Rig
from tests.fleets.virtual import VirtualLoop, run

EVE_SIGNER = operator_signer("eve")[1]


def generation(
    rig: Rig, number: int, signer: Signer = ALICE_SIGNER, restored_s: int = 0, id: str = "a"
) -> SignedGeneration:
    content = canonical.encode(Generation(rig.fleet_id, number, id, rig.head, restored_s or rig.now_s()))
    return SignedGeneration(content, (signer.sign(content, NAMESPACE),))


def copied(rig: Rig) -> MemoryStore:
    """The ledger of this hub, as a file of it has it."""
    store = MemoryStore()
    blobs = {digest: content for digest in rig.store.blob_digests() if (content := rig.store.blob(digest)) is not None}
    store.commit(Transaction(expect={}, put={one.key: one.value for one in rig.store.scan("")}, blobs=blobs))
    return store


def hub_of(rig: Rig, store: MemoryStore, signed: SignedGeneration | None = None) -> Rig:
    if signed is not None:
        store.commit(stored.writing(signed))
    return Rig(rig.loop, before=rig, store=store)


class Node:
    """One agent, running."""

    def __init__(self, rig: Rig) -> None:
        self.machine = Machine(rig, "w1")
        self.agent = self.machine.start()
        self.task = asyncio.ensure_future(self.agent.run())

    def moves_to(self, rig: Rig) -> None:
        self.machine.link.rig = rig

    @property
    def codes(self) -> set[str]:
        return {found.code for found in self.agent.findings.all()}

    @property
    def kept(self) -> bytes | None:
        return self.machine.journal.fact(FACT)


def play(story: Callable[[Rig, Node], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, small_fleet(nodes=("w1",)))
        node = Node(rig)
        await asyncio.sleep(30)
        assert node.agent.accepting.seen == rig.head
        try:
            await story(rig, node)
        finally:
            node.task.cancel()
            await asyncio.wait([node.task])

    run(main)


def test_a_restored_hub_is_followed_and_remembered_over_a_restart() -> None:
    async def story(rig: Rig, node: Node) -> None:
        new = hub_of(rig, copied(rig), generation(rig, 1))
        joins = sum(entry.event.action == "join" for entry in rig.audited())
        node.moves_to(new)
        await asyncio.sleep(120)
        head = new.commit(small_fleet({"a": 2}, nodes=("w1",)))
        await asyncio.sleep(60)
        assert node.agent.accepting.seen == head
        assert node.kept is not None and node.codes == set()
        assert sum(entry.event.action == "join" for entry in new.audited()) == joins, "it joined again"
        node.task.cancel()
        await asyncio.wait([node.task])
        node.agent = node.machine.start()
        node.task = asyncio.ensure_future(node.agent.run())
        node.moves_to(rig)  # the old one
        await asyncio.sleep(60)
        assert "old_hub" in node.codes

    play(story)


def test_an_old_hub_is_not_followed_and_stops_when_a_node_proves_the_newer_one() -> None:
    async def story(rig: Rig, node: Node) -> None:
        old = copied(rig)
        node.moves_to(hub_of(rig, copied(rig), generation(rig, 1)))
        await asyncio.sleep(120)
        back = hub_of(rig, old)
        ended = asyncio.ensure_future(back.check_ins.ended())
        wrong = back.commit(small_fleet({"a": 9}, nodes=("w1",)))
        node.moves_to(back)
        await asyncio.sleep(300)
        assert node.agent.accepting.seen != wrong, "it followed the old hub"
        assert "old_hub" in node.codes
        assert ended.done()
        with pytest.raises(Corrupt, match="restored generation 1") as trouble:
            ended.result()
        assert (trouble.value.code, trouble.value.exit_code) == ("superseded", 7)
        with pytest.raises(Corrupt) as refused:
            boot(old, MemoryHighWater(), strict=False)
        assert refused.value.code == "superseded"
        assert "hub-superseded" in [entry.event.action for entry in back.audited()]

    play(story)


def test_the_later_one_of_two_restores_of_one_file_wins() -> None:
    async def story(rig: Rig, node: Node) -> None:
        first, second = copied(rig), copied(rig)
        node.moves_to(hub_of(rig, first, generation(rig, 1, restored_s=100)))
        await asyncio.sleep(120)
        kept = node.kept
        node.moves_to(hub_of(rig, second, generation(rig, 1, restored_s=200, id="b")))
        await asyncio.sleep(120)
        assert node.kept != kept and node.codes == set()
        node.moves_to(hub_of(rig, first))
        await asyncio.sleep(120)
        assert stored.newer(first) is not None and stored.newer(second) is None

    play(story)


def test_a_statement_that_no_operator_signed_moves_no_node_and_stops_no_hub() -> None:
    async def story(rig: Rig, node: Node) -> None:
        forged = generation(rig, 9, EVE_SIGNER)
        node.moves_to(hub_of(rig, copied(rig), forged))
        await asyncio.sleep(120)
        assert node.kept is None and "hub_unproven" in node.codes
        node.moves_to(rig)
        await asyncio.sleep(120)
        assert node.codes == set()
        who = rig.desk.node_of_key(node.machine.key.line)
        assert isinstance(who, Principal)
        for statement in (forged, replace(forged, generation=b"{}"), replace(generation(rig, 1), signatures=())):
            answer = await rig.desk.check_in(who, CheckIn("w1", rig.head, newer_hub=statement), "192.0.2.7")
            assert answer.head == rig.head
        assert stored.newer(rig.store) is None

    play(story)


def test_an_older_statement_does_not_stop_the_newer_hub() -> None:
    async def story(rig: Rig, node: Node) -> None:
        new = hub_of(rig, copied(rig), generation(rig, 2))
        who = new.desk.node_of_key(node.machine.key.line)
        assert who is not None
        answer = await new.desk.check_in(who, CheckIn("w1", rig.head, newer_hub=generation(rig, 1)), "192.0.2.7")
        assert answer.restored_hub == generation(rig, 2)
        assert stored.newer(new.store) is None

    play(story)


def test_a_stale_hub_is_named_with_what_it_misses_and_mended_from_the_node() -> None:
    async def story(rig: Rig, node: Node) -> None:
        file = copied(rig)
        for version in (2, 3, 4):
            head = rig.commit(small_fleet({"a": version}, nodes=("w1",)))
        await asyncio.sleep(60)
        assert node.agent.accepting.seen == head
        stale = hub_of(rig, file, generation(rig, 1))
        assert stale.head.number == head.number - 3
        node.moves_to(stale)
        await asyncio.sleep(300)
        (found,) = [one for one in stale.desk.status_findings() if one.code == "node_ahead"]
        assert "misses 3 revisions" in found.message and "import ledger" in found.remedy
        with pytest.raises(HoldfastError) as refused:
            stale.commit(small_fleet({"a": 5}, nodes=("w1",)))
        assert refused.value.code == "ledger_behind"
        mark = MemoryHighWater()
        mended = restore(file, mark, {}, rig.now_s())
        assert (mended.head, mended.before.number) == (head, head.number - 3)
        assert examine(file, mark).findings == () and file.scan("salvage/") == []
        assert file.get(keys.GENERATION) is not None
        again = hub_of(rig, file)
        assert again.head == head
        node.moves_to(again)
        await asyncio.sleep(120)
        assert node.codes == set()
        newest = again.commit(small_fleet({"a": 5}, nodes=("w1",)))
        await asyncio.sleep(60)
        assert node.agent.accepting.seen == newest

    play(story)


def test_a_hub_that_names_a_generation_and_shows_none_is_one_without() -> None:
    """A node that knows of no restore refuses no hub for one, and makes no mistake of it."""

    async def story(rig: Rig, node: Node) -> None:
        link = node.machine.link
        honest = link.check_in

        async def claims(message: CheckIn) -> CheckInAnswer:
            answer: CheckInAnswer = await honest(message)
            return replace(answer, hub="0" * 64, restored_hub=None)

        link.check_in = claims
        await asyncio.sleep(60)
        assert node.codes == set() and node.kept is None
        assert node.agent.accepting.seen == rig.head

    play(story)
