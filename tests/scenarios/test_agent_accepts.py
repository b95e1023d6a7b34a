"""An agent believes operators, not hubs: it follows signed revisions, parks what lacks a grade, refuses the rest."""

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.acceptance.memory import MemoryAcceptance
from holdfast.agent.acceptance import manifest as signed_manifest
from holdfast.agent.agent import Agent
from holdfast.errors import Failed
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.checkin import CheckInAnswer
from holdfast.model.fleet import Component, Fleet, Service, Volume
from holdfast.model.report import PULSE_NAMESPACE, Pulse, Report
from holdfast.model.revision import Candidate, Head
from holdfast.planning.plan import plan
from holdfast.trust import own_signature
from tests.fleets.agents import Lone, PaperHub, applied_after, turn
from tests.fleets.build import ALICE, ALICE_SIGNER, digest_pinned, operator_signer, sign, small_fleet, small_service
from tests.fleets.virtual import VirtualLoop, run

CAROL, CAROL_SIGNER = operator_signer("carol", "apply")
SCOPED, SCOPED_SIGNER = operator_signer("ci", "apply", ("service.web",))
OPERATORS = (ALICE, CAROL, SCOPED)


def with_volume(version: int = 1, *volumes: str) -> Service:
    kept = tuple(Volume(name, f"/{name}", "backup") for name in volumes)
    return Service((Component("main", digest_pinned(f"db:{version}"), volumes=kept),))


def fleet(nodes: tuple[str, ...] = ("w1", "w2"), **services: Service) -> Fleet:
    return small_fleet(services or {"web": 1}, nodes, OPERATORS)


def chain(*steps: tuple[Fleet, Any]) -> list[Candidate]:
    """Revisions that follow each other, each signed by whom it says; no hub looked at them."""
    found: list[Candidate] = []
    applied: Applied | None = None
    for wanted, signer in steps:
        planned = plan(wanted, applied)
        assert planned.candidate is not None
        found.append(sign(planned.candidate, signer))
        applied = applied_after(found[-1], applied)
    return found


def in_world(scene: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    run(scene)


ONE = (fleet(web=small_service("web"), db=with_volume(1, "data")), ALICE_SIGNER)
DROPPED = fleet(web=small_service("web", 2), db=with_volume(1))


def findings(agent: Agent) -> list[str]:
    return [finding.code for finding in agent.findings.all()]


def node_of(service: str, candidates: list[Candidate]) -> str:
    applied: Applied | None = None
    for candidate in candidates:
        applied = applied_after(candidate, applied)
    assert applied is not None
    return str(applied.table.entries[f"service.{service}"].node)


def test_what_was_signed_is_accepted_and_the_receipt_is_signed_by_the_node() -> None:
    """design §1 Accept: chain, manifest, contents; then a pulse that anybody can verify."""

    async def scene(loop: VirtualLoop) -> None:
        hub = PaperHub(*chain(ONE))
        lone = Lone(loop, hub)
        agent = await lone.turned()
        assert agent.accepting.seen == hub.head
        receipt = hub.said[-1].pulse
        assert receipt is not None
        own_signature.verify(receipt.pulse, receipt.signature, PULSE_NAMESPACE, lone.key.line)
        pulse = msgspec.json.decode(receipt.pulse, type=Pulse)
        assert (pulse.accepted, pulse.node) == (hub.head, "w1")
        assert canonical.digest(hub.said[-1].report) == pulse.report
        newest = lone.acceptance.newest()
        assert newest is not None and pulse.manifest == canonical.digest(newest.in_force)
        assert not lone.acceptance.missing(signed_manifest.needed(signed_manifest.decode_manifest(newest.in_force)))

    in_world(scene)


def test_a_delta_without_its_grade_is_parked_and_the_rest_applied() -> None:
    """design §2: an agent that still meets one applies the rest, parks that resource and reports it; also after a
    restart, until somebody of that grade signs a change of it."""

    async def scene(loop: VirtualLoop) -> None:
        candidates = chain(ONE, (DROPPED, CAROL_SIGNER))
        node = node_of("db", candidates)
        hub = PaperHub(candidates[0])
        lone = Lone(loop, hub, node)
        agent = await lone.turned()
        before = agent.accepting.in_force
        assert before is not None
        hub.candidates.append(candidates[1])
        await turn(agent)
        now = agent.accepting.in_force
        assert now is not None
        assert now.services["service.db"] == before.services["service.db"]
        if "service.web" in now.services:
            assert now.services["service.web"] != before.services["service.web"]
        assert [one.address for one in agent.accepting.parked] == ["service.db"]
        assert "data" in agent.accepting.parked[0].reason and "destroy" in agent.accepting.parked[0].reason
        report = msgspec.json.decode(hub.said[-1].report, type=Report)
        assert [one.address for one in report.parked] == ["service.db"] and report.health == "degraded"
        assert ("accept", "service.db", "parked") in lone.audited()

        again = await lone.turned()  # the next process
        assert again.accepting.parked == agent.accepting.parked
        assert again.accepting.in_force == now

        edited = replace(DROPPED, services=DROPPED.services | {"db": with_volume(2)})
        hub.candidates.append(chain(ONE, (DROPPED, CAROL_SIGNER), (edited, ALICE_SIGNER))[2])
        await turn(again)
        assert again.accepting.seen == hub.head and again.accepting.parked == ()
        assert again.accepting.in_force is not None
        assert again.accepting.in_force.services["service.db"] != before.services["service.db"]

    in_world(scene)


def test_a_signature_outside_its_scope_changes_nothing_here() -> None:
    """design §3: CI signs for service.web alone, whatever a hub lets it commit."""

    async def scene(loop: VirtualLoop) -> None:
        changed = fleet(web=small_service("web", 2), db=with_volume(2, "data"))
        candidates = chain(ONE, (changed, SCOPED_SIGNER))
        for node in ("w1", "w2"):
            hub = PaperHub(candidates[0])
            lone = Lone(loop, hub, node)
            agent = await lone.turned()
            before = agent.accepting.in_force
            hub.candidates.append(candidates[1])
            await turn(agent)
            now = agent.accepting.in_force
            assert before is not None and now is not None
            if "service.db" in before.services:
                assert now.services["service.db"] == before.services["service.db"]
                assert [one.address for one in agent.accepting.parked] == ["service.db"]
            if "service.web" in before.services:
                assert now.services["service.web"] != before.services["service.web"]

    in_world(scene)


WEB = node_of("web", chain(ONE))
Spoil = Callable[[PaperHub, list[Candidate]], None]


def older(hub: PaperHub, good: list[Candidate]) -> None:
    hub.candidates = good[:1]


def forked(hub: PaperHub, good: list[Candidate]) -> None:
    hub.candidates = [good[0], chain(ONE, (fleet(web=small_service("web", 7)), ALICE_SIGNER))[1]]


def longer_fork(hub: PaperHub, good: list[Candidate]) -> None:
    other = fleet(web=small_service("web", 7))
    hub.candidates = chain(ONE, (other, ALICE_SIGNER), (fleet(web=small_service("web", 8)), ALICE_SIGNER))


def other_fleet(hub: PaperHub, good: list[Candidate]) -> None:
    eve, eve_signer = operator_signer("eve")
    stolen = small_fleet({"web": 1}, ("w1", "w2"), (eve,))
    wanted = [
        (stolen, eve_signer),
        *((replace(stolen, services={"web": small_service("web", n)}), eve_signer) for n in (2, 3)),
    ]
    hub.candidates = chain(*wanted)


def _next(signer: Any) -> Candidate:
    return chain(
        ONE,
        (fleet(web=small_service("web", 2), db=with_volume(1, "data")), ALICE_SIGNER),
        (fleet(web=small_service("web", 3), db=with_volume(1, "data")), signer),
    )[2]


def stranger(hub: PaperHub, good: list[Candidate]) -> None:
    hub.candidates.append(_next(operator_signer("eve")[1]))


def unsigned(hub: PaperHub, good: list[Candidate]) -> None:
    hub.candidates.append(replace(_next(ALICE_SIGNER), signatures=()))


def other_manifest(hub: PaperHub, good: list[Candidate]) -> None:
    added = _next(ALICE_SIGNER)
    hub.candidates.append(added)
    manifest = added.blobs[msgspec.json.decode(added.header)["manifests"][WEB]]
    forged = manifest.replace(b'"epoch":1', b'"epoch":9')
    hub.lies[canonical.digest(manifest)] = forged
    hub.bend = lambda answer: replace(answer, manifest=forged)


def other_content(hub: PaperHub, good: list[Candidate]) -> None:
    added = _next(ALICE_SIGNER)
    hub.candidates.append(added)
    hub.lies |= {d: b + b" " for d, b in added.blobs.items()}
    hub.bend = lambda answer: replace(answer, manifest=b"")


def head_without_links(hub: PaperHub, good: list[Candidate]) -> None:
    added = _next(ALICE_SIGNER)
    hub.candidates.append(added)
    hub.bend = lambda answer: replace(answer, head=Head(answer.head.number, "f" * 64))


SAID: dict[Spoil, str] = {older: "rolled back", forked: "forked", other_content: "something else"}


@pytest.mark.parametrize(
    "spoil",
    [older, forked, longer_fork, other_fleet, stranger, unsigned, other_manifest, other_content, head_without_links],
    ids=lambda spoil: spoil.__name__,
)
def test_a_hub_that_lies_is_refused_once_loudly_and_changes_nothing(spoil: Spoil) -> None:
    """W14, A4, A11: highest number and digest kept; a finding, one audit line, no receipt; heartbeats go on."""

    async def scene(loop: VirtualLoop) -> None:
        good = chain(ONE, (fleet(web=small_service("web", 2), db=with_volume(1, "data")), ALICE_SIGNER))
        hub = PaperHub(*good)
        lone = Lone(loop, hub, WEB)
        agent = await lone.turned()
        seen, kept = agent.accepting.seen, lone.acceptance.newest()
        spoil(hub, good)
        for _ in range(3):
            trouble = await turn(agent)
            assert trouble is not None and trouble.code == "revision_refused"
        assert (agent.accepting.seen, lone.acceptance.newest()) == (seen, kept)
        assert findings(agent) == ["revision_refused"]
        assert SAID.get(spoil, "") in agent.findings.all()[0].message
        assert [e for e in lone.audited() if e[2] == "refused"] == [
            ("accept", f"revision {hub.head.number}", "refused")
        ]
        pulse = hub.said[-1].pulse
        assert pulse is not None and msgspec.json.decode(pulse.pulse, type=Pulse).accepted == seen
        # and when the hub is itself again, so is the node
        hub.candidates, hub.lies, hub.bend = [*good, _next(ALICE_SIGNER)], {}, None
        await turn(agent)
        assert (agent.accepting.seen, findings(agent)) == (hub.head, [])

    in_world(scene)


def test_the_first_chain_must_lead_through_the_revision_the_operator_knew() -> None:
    """design §3 Enrolment: the token carries the head; a hub cannot start a new node on a fork."""

    async def scene(loop: VirtualLoop) -> None:
        good = chain(ONE, (fleet(web=small_service("web", 2)), ALICE_SIGNER))
        known = PaperHub(*good).head
        fork = chain(
            ONE, (fleet(web=small_service("web", 7)), ALICE_SIGNER), (fleet(web=small_service("web", 8)), ALICE_SIGNER)
        )
        lone = Lone(loop, PaperHub(*fork), "w1", known)
        agent = await lone.turned()
        assert lone.acceptance.newest() is None and findings(agent) == ["revision_refused"]
        lone.hub = PaperHub(*good)
        agent = await lone.turned()
        assert agent.accepting.seen == known

    in_world(scene)


def test_a_node_that_is_no_longer_named_keeps_everything() -> None:
    async def scene(loop: VirtualLoop) -> None:
        without = fleet(("w2",), web=small_service("web"), db=with_volume(1, "data"))
        applied = applied_after(chain(ONE)[0], None)
        node = "w1" if applied.table.entries["service.db"].node == "w2" else "w2"
        left = tuple(n for n in ("w1", "w2") if n != node)
        without = fleet(left, web=small_service("web"), db=with_volume(1, "data"))
        hub = PaperHub(*chain(ONE))
        lone = Lone(loop, hub, node)
        agent = await lone.turned()
        before = agent.accepting.in_force
        hub.candidates = chain(ONE, (without, ALICE_SIGNER))
        await turn(agent)
        assert agent.accepting.in_force == before
        assert (agent.accepting.seen, findings(agent)) == (hub.head, ["not_in_revision"])
        again = await lone.turned()
        assert again.accepting.in_force == before

    in_world(scene)


def caught_up(loop: VirtualLoop, lost: bool) -> tuple[Lone, PaperHub, list[Candidate]]:
    steps = chain(ONE, (DROPPED, ALICE_SIGNER), (fleet(web=small_service("web", 3), db=with_volume(1)), CAROL_SIGNER))
    node = node_of("db", steps)
    hub = PaperHub(steps[0])
    lone = Lone(loop, hub, node)
    if lost:
        manifests = [msgspec.json.decode(c.header)["manifests"][node] for c in steps]
        hub.lost = {manifests[1]} - {manifests[2]}
    return lone, hub, steps


def test_what_was_missed_is_judged_by_the_revision_that_brought_it() -> None:
    """A node that slept through a revision of grade destroy need not have it signed again by the next one."""

    async def scene(loop: VirtualLoop) -> None:
        lone, hub, steps = caught_up(loop, lost=False)
        agent = await lone.turned()
        hub.candidates = steps
        await turn(agent)
        assert (agent.accepting.seen, agent.accepting.parked) == (hub.head, ())

    in_world(scene)


def test_a_long_chain_is_fetched_in_pieces_and_walked_whole() -> None:
    async def scene(loop: VirtualLoop) -> None:
        steps = chain(
            ONE, *((fleet(web=small_service("web", n), db=with_volume(1, "data")), ALICE_SIGNER) for n in range(2, 232))
        )
        hub = PaperHub(steps[0])
        lone = Lone(loop, hub, "w1")
        agent = await lone.turned()
        hub.candidates = steps
        await turn(agent)
        assert agent.accepting.seen == hub.head == Head(231, hub.head.digest)
        assert [link.header.number for link in lone.acceptance.links(1, 1000)] == list(range(1, 232))

    in_world(scene)


class FullDisk(MemoryAcceptance):
    def accept(self, *given: Any) -> None:
        raise Failed("no space is left", remedy="free some", code="no_space")


def test_no_receipt_for_what_could_not_be_written() -> None:
    """R06, H-20: durable before the receipt; a full disk says so and is tried again."""

    async def scene(loop: VirtualLoop) -> None:
        hub = PaperHub(*chain(ONE))
        lone = Lone(loop, hub)
        lone.acceptance = FullDisk()
        agent = await lone.turned(2)
        assert agent.accepting.seen.number == 0
        assert findings(agent) == ["state_unwritable"]
        reports = [msgspec.json.decode(m.report, type=Report) for m in hub.said if m.report]
        assert reports[-1].findings[0].message == "no space is left"
        for message in hub.said:
            if message.pulse is not None:
                assert msgspec.json.decode(message.pulse.pulse, type=Pulse).accepted.number == 0

    in_world(scene)


def test_an_answer_of_a_newer_hub_is_read_for_what_is_known() -> None:
    """n+1: fields nobody knows yet are no reason to fall silent."""
    whole = msgspec.json.decode(msgspec.json.encode(CheckInAnswer(Head(1, "a" * 64), 1.0)))
    whole |= {"weather": "fine", "wire": 2, "cadence": {"poll_s": 5.0, "heartbeat_s": 9.0, "mood": 1}}
    read = msgspec.json.decode(msgspec.json.encode(whole), type=CheckInAnswer)
    assert (read.head.number, read.cadence.poll_s, read.registered) == (1, 5.0, True)


@pytest.mark.parametrize("mode", ["converge", "observe"])
def test_a_node_reports_the_mode_it_was_given_c_04(mode: str) -> None:
    async def scene(loop: VirtualLoop) -> None:
        plain = fleet()
        given = replace(plain, nodes={**plain.nodes, "w1": replace(plain.nodes["w1"], reconcile=mode)})
        hub = PaperHub(*chain((given, ALICE_SIGNER)))
        await Lone(loop, hub).turned()
        assert msgspec.json.decode(hub.said[-1].report, type=Report).mode == mode

    in_world(scene)
