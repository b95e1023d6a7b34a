"""Check-in (V-37): what goes up, what comes down, what is held, and what a node that does not follow can cost."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.errors import Invalid, NotPermitted
from holdfast.hub.nodes import reports
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.audit import AuditEntry, Event, encode
from holdfast.model.cadence import NODES_AT_FULL_PACE, NORMAL, Cadence, stretched
from holdfast.model.checkin import LINKS_MAX, CheckIn
from holdfast.model.fleet import Node
from holdfast.model.principal import Principal
from holdfast.model.report import PULSE_NAMESPACE, Facts, SignedPulse
from holdfast.model.revision import NO_HEAD, Head
from holdfast.ports.ledger_store import Transaction
from holdfast.trust import own_signature
from holdfast.wiring import hub as wiring
from tests.fleets.build import mailbox, small_fleet
from tests.fleets.desks import Puppet, Rig
from tests.fleets.virtual import VirtualLoop, run

NODES = ("w1", "w2", "e1")


def test_a_node_that_is_behind_is_told_at_once_and_gets_its_own_manifest_alone() -> None:
    """H-37, D8: links after what it has seen, and the manifest of no other node."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        answer = await w1.says(wait_s=30.0)
        applied = rig.hub.applied()
        assert applied is not None
        assert loop.time() == 0.0
        assert [link.header.number for link in answer.links] == [1]
        assert canonical.digest(answer.manifest) == applied.header.manifests["w1"]
        assert b'"w2"' not in answer.manifest

    run(main)


def test_a_quiet_question_is_held_for_as_long_as_the_node_allows_and_no_longer() -> None:
    """T-04: ten seconds."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await w1.follows()
        at_s = loop.time()
        answer = await w1.says(wait_s=10.0)
        assert loop.time() - at_s == pytest.approx(10.0)
        assert answer.head == rig.head and not answer.links and not answer.orders and not answer.manifest
        await w1.says(wait_s=86_400.0)
        assert loop.time() - at_s == pytest.approx(70.0), "never longer than HOLD_S_MAX"

    run(main)


def test_a_commit_wakes_the_nodes_it_touches_and_nobody_else() -> None:
    """Woken at once by a commit that changes this node's manifest."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, small_fleet(("web",), NODES))
        w1, w2, e1 = await rig.joined(*NODES)
        for puppet in (w1, w2, e1):
            await puppet.follows()
        held = {p.name: asyncio.create_task(p.says(wait_s=50.0)) for p in (w1, w2, e1)}
        await asyncio.sleep(1)
        applied = rig.hub.applied()
        assert applied is not None
        before = applied.header.manifests
        rig.commit(small_fleet({"web": 2}, NODES))
        after = rig.hub.applied()
        assert after is not None
        touched = {name for name in NODES if before[name] != after.header.manifests[name]}
        assert len(touched) == 1
        await asyncio.sleep(0.001)
        assert {name for name, task in held.items() if task.done()} == touched
        (name,) = touched
        assert (await held[name]).links[-1].header.number == 2
        assert loop.time() < 1.01
        answers = await asyncio.gather(*held.values())
        assert {answer.head.number for answer in answers} == {2}, "the others learn it when their time is up"

    run(main)


def test_the_answer_about_nodes_names_the_revisions_that_they_accepted_as_the_ledger_has_them() -> None:
    """X15: so a command need not ask for them. A revision that the ledger does not have is left out."""

    async def accepts(node: Puppet, head: Head) -> None:
        node.seen = head
        await node.beat()

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, small_fleet(("web",), NODES))
        w1, w2, e1 = await rig.joined(*NODES)
        assert rig.desk.nodes().chain == ()
        first = rig.head
        await accepts(w1, Head(first.number, "f" * 64))
        assert rig.desk.nodes().chain == (first,), "not what the node says"
        rig.commit(small_fleet({"web": 2}, NODES))
        await accepts(w2, rig.head)
        await accepts(e1, Head(9, "9" * 64))
        assert rig.desk.nodes().chain == (first, rig.head)

    run(main)


def test_a_second_question_of_one_node_ends_the_first() -> None:
    """One long-poll per agent: whoever lost its connection does not leave a sleeper behind that eats its orders."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await w1.follows()
        first = asyncio.create_task(w1.says(wait_s=50.0))
        await asyncio.sleep(1)
        fleet = small_fleet(("web",), NODES)
        elsewhere = replace(fleet, nodes={**fleet.nodes, "e1": Node("e1", ("worker",), labels={"rack": "b"})})
        rig.commit(elsewhere)  # does not touch w1, so it is not woken
        await w1.says(seen=rig.head)
        await asyncio.sleep(0)
        assert first.done() and not (await first).links, "nothing is said on a line that was given up"
        w1.seen = rig.head
        first = asyncio.create_task(w1.says(wait_s=50.0))
        await asyncio.sleep(1)
        second = asyncio.create_task(w1.says(wait_s=50.0))
        await asyncio.sleep(1)
        assert first.done() and not second.done()
        await rig.desk.submit(w1.principal, rig.order("w1"), "x")
        assert len((await second).orders) == 1
        assert not (await first).orders

    run(main)


def test_a_node_far_behind_comes_in_steps_and_one_that_does_not_follow_is_not_told_in_a_circle() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        for version in range(2, LINKS_MAX + 6):
            rig.commit(small_fleet({"web": version}, NODES))
        answer = await w1.says(wait_s=30.0)
        assert [link.header.number for link in answer.links] == list(range(1, LINKS_MAX + 1))
        w1.seen = Head(LINKS_MAX, canonical.digest(answer.links[-1].header_bytes))
        answer = await w1.says(wait_s=30.0)
        assert [link.header.number for link in answer.links] == list(range(LINKS_MAX + 1, LINKS_MAX + 6))
        assert loop.time() == 0.0
        for _ in range(10):  # it refuses the newest revision, and says so again and again
            answer = await w1.says(wait_s=30.0)
            assert answer.links
        assert loop.time() == pytest.approx(100.0), "once per poll, however eagerly it asks"
        await w1.beat()
        assert "node_behind" in {finding.code for finding in rig.desk.status_findings()}

    run(main)


def test_a_node_that_knows_more_than_the_hub_is_a_finding_and_no_storm() -> None:
    """A hub that lost revisions has nothing to say, and says that it lost them."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        w1.seen = Head(9, "9" * 64)
        await w1.beat()
        answer = await w1.says(wait_s=10.0)
        assert loop.time() == pytest.approx(10.0) and not answer.links
        assert "node_ahead" in {finding.code for finding in rig.desk.status_findings()}

    run(main)


def test_a_report_travels_only_when_it_changed_and_survives_the_hub() -> None:
    """H-36: the body only when changed; M-62: only changes are written."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await w1.follows()
        report = w1.a_report(address="100.64.0.1")
        answer = await w1.beat(report, wait_s=30.0, send_report=False)
        assert answer.report_wanted and loop.time() == 0.0
        await w1.beat(report)
        written = rig.store.get(keys.report("w1"))
        assert written is not None
        for _ in range(20):
            assert not (await w1.beat(report, send_report=False)).report_wanted
            await w1.beat(report)
        assert rig.store.get(keys.report("w1")) == written, "heartbeats stay in memory"
        again = rig.restarted()
        (view,) = [view for view in again.desk.nodes().nodes if view.name == "w1"]
        assert view.report == report and view.pulse is not None and view.age_s == 0.0

    run(main)


def test_claims_of_a_node_are_clamped_and_lies_about_others_refused() -> None:
    """D10, I-12."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        w1, w2 = await rig.joined("w1", "w2")
        wild = Facts(-5, 1 << 62, 1 << 61, -1, 1 << 40, 10**9)
        await w1.says(heartbeat=True, pulse=w1.pulse(facts=wild))
        seen = rig.desk.observations()["w1"]
        assert seen.containers == 100_000 and seen.status == "healthy"
        with pytest.raises(NotPermitted):
            await w1.says(heartbeat=True, pulse=w2.pulse())
        with pytest.raises(NotPermitted):
            await w1.says(heartbeat=True, pulse=w1.pulse(fleet="f" * 64))
        spoken = w2.a_report()
        with pytest.raises(NotPermitted):
            await w1.says(heartbeat=True, pulse=w1.pulse(spoken), report=spoken)
        for nonsense in (b"", b"[", b"\xff", b'{"fleet":1}', b"[" * 5000):
            with pytest.raises(Invalid):
                await w1.says(heartbeat=True, pulse=SignedPulse(nonsense, ""))
        with pytest.raises(Invalid):
            await w1.says(address="x" * 300)
        assert sum(1 for line in rig.audited() if line.event.result == "denied") == 3

    run(main)


ABSURD = {
    "release is a number": {"release": 5},
    "release is missing a value": {"release": None},
    "long release": {"release": "9" * 300},
    "release of ten thousand bytes": {"release": "9" * 10_000},
    "negative format": {"format": -1},
    "huge format": {"format": 10**30},
    "format is text": {"format": "1"},
}


def said_with(w1: Puppet, fields: dict[str, object], report: bytes = b"") -> SignedPulse:
    """A pulse of this node with other fields, signed as any other one."""
    whole = msgspec.json.decode(w1.pulse(report).pulse)
    content = msgspec.json.encode({**whole, **fields})
    return SignedPulse(content, own_signature.armoured(w1.key, content, PULSE_NAMESPACE))


@pytest.mark.parametrize("fields", ABSURD.values(), ids=ABSURD.keys())
def test_a_pulse_with_an_absurd_release_or_format_is_refused(fields: dict[str, object]) -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        with pytest.raises(Invalid):
            await w1.says(heartbeat=True, pulse=said_with(w1, fields))
        (view,) = [view for view in rig.desk.nodes().nodes if view.name == "w1"]
        assert view.pulse is None
        await w1.beat()
        assert rig.registry.members["w1"].newest.format == 0, "a pulse of an agent before this field"

    run(main)


def test_a_stored_pulse_that_this_release_cannot_read_does_not_stop_the_hub(caplog: pytest.LogCaptureFixture) -> None:
    """An earlier hub ignored the field `release`, so a node could write anything there, and the hub stored it."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        report = w1.a_report(address="100.64.0.1")
        await w1.beat(report)
        for kept in (
            msgspec.json.encode(reports.Kept(said_with(w1, {"release": 5}, report), report, "100.64.0.1")),
            msgspec.json.encode(reports.Kept(w1.pulse(report), b'{"node":5}', "100.64.0.1")),
            b"[",
        ):
            rig.store.commit(Transaction(expect={}, put={keys.report("w1"): kept}))
            again = rig.restarted()
            (view,) = [view for view in again.desk.nodes().nodes if view.name == "w1"]
            assert view.joined and view.report == b"" and "w1" in caplog.text
            caplog.clear()

    run(main)


def test_a_report_that_no_pulse_vouches_for_is_not_taken() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await w1.says(heartbeat=True, pulse=w1.pulse(w1.a_report(version="1")), report=w1.a_report(version="2"))
        (view,) = [view for view in rig.desk.nodes().nodes if view.name == "w1"]
        assert view.report == b""

    run(main)


def test_a_pulse_that_was_overtaken_on_the_way_does_not_go_back() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        early = w1.pulse()
        await asyncio.sleep(5)
        late = w1.pulse()
        await w1.says(heartbeat=True, pulse=late)
        await w1.says(heartbeat=True, pulse=early)
        (view,) = [view for view in rig.desk.nodes().nodes if view.name == "w1"]
        assert view.pulse == late

    run(main)


def test_a_wrong_clock_is_a_finding() -> None:
    """The skew alarm: more than 30 s either way."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        for skew_s, codes in ((29.0, set()), (31.0, {"clock_skew"}), (-400.0, {"clock_skew"})):
            await w1.says(clock_s=rig.clock.now_s() + skew_s)
            found = {f.code for f in rig.desk.status_findings() if f.address == "node.w1"}
            assert found == codes, skew_s

    run(main)


def test_a_node_that_moves_is_written_down_with_its_address_before() -> None:
    """M-23."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        w1 = Puppet(rig, "w1")
        await w1.join(address="100.64.0.1")
        await w1.beat(w1.a_report())
        await w1.says(address="100.64.0.1")
        count = len(rig.audited())
        await w1.says(address="100.64.0.7")
        lines = rig.audited()[count:]
        assert len(lines) == 1 and "previous address 100.64.0.1" in lines[0].event.detail
        assert rig.restarted().desk.nodes().nodes[-2].address == "100.64.0.7"

    run(main)


def chained(count: int, mark: str = "") -> list[bytes]:
    lines: list[bytes] = []
    previous = "0" * 64
    for number in range(1, count + 1):
        lines.append(encode(AuditEntry(number, number, Event("node:w1", "act", detail=mark), previous)))
        previous = canonical.digest(lines[-1])
    return lines


def test_the_hub_keeps_a_copy_of_a_nodes_log_and_notices_when_it_was_changed() -> None:
    """H-36, I-38: lines once sent are durable here; a chain that does not continue is a finding."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        lines = chained(6)
        assert (await w1.says(audit=tuple(lines[:3]))).audit_seen == 3
        assert (await w1.says(audit=tuple(lines[1:5]))).audit_seen == 5, "sent again, because an answer was lost"
        rig = w1.rig = rig.restarted()
        assert rig.desk.audit_lines("w1", 0, 100) == lines[:5]
        assert rig.desk.audit_lines("w1", 3, 1) == lines[3:4]
        assert rig.desk.audit_entries("w1") == 5
        assert (await w1.says(audit=(lines[5],))).audit_seen == 6
        assert "audit_broken" not in {f.code for f in rig.desk.status_findings()}
        forged = chained(7, "another past")
        assert (await w1.says(audit=(forged[6],))).audit_seen == 6
        assert "audit_broken" in {f.code for f in rig.desk.status_findings()}
        assert rig.desk.audit_lines("w1", 5, 10) == lines[5:]

    run(main)


def test_intervals_stretch_with_the_number_of_nodes() -> None:
    """C-02: a fleet twice as large makes no more requests a second; a probe takes as long as before."""
    assert stretched(NORMAL, 1) == stretched(NORMAL, NODES_AT_FULL_PACE) == NORMAL
    slow = stretched(NORMAL, 2 * NODES_AT_FULL_PACE)
    assert (slow.poll_s, slow.heartbeat_s, slow.window_s, slow.probe_s) == (
        2 * NORMAL.poll_s,
        2 * NORMAL.heartbeat_s,
        2 * NORMAL.window_s,
        NORMAL.probe_s,
    )


def test_agents_learn_the_intervals_of_their_hub_with_the_answer() -> None:
    """C-02: the hub may raise intervals in its answer, and widens the window likewise."""

    async def main(loop: VirtualLoop) -> None:
        for pace in (NORMAL, Cadence(20.0, 60.0, 180.0, 5.0)):
            (w1,) = await Rig(loop, pace=pace).joined("w1")
            assert (await w1.follows()).cadence == pace

    run(main)


def test_a_hub_without_a_revision_asks_for_what_nodes_hold_and_knows_nobody() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        stranger = Principal("joining", "", w1.key.line)
        answer = await rig.desk.check_in(stranger, CheckIn("w1"), "x")
        assert not answer.registered and not answer.salvage_wanted and answer.head == NO_HEAD
        pin = rig.store.get(keys.PIN)
        assert pin is not None
        empty = MemoryStore()
        empty.commit(Transaction(expect={}, put={keys.PIN: pin.value}))
        hub = mailbox(empty, rig.clock)
        fleet = wiring.fleet(hub=hub, store=empty, clock=rig.clock, random=SeededRandom("desk"), audit=rig.audit)
        answer = await fleet.check_ins.check_in(stranger, CheckIn("w1"), "x")
        assert not answer.registered and answer.salvage_wanted and answer.head == NO_HEAD

    run(main)
