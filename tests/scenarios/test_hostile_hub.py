"""A stolen hub with one stolen key of grade apply: what a node follows, holds and reports stays what operators signed.

W14, I-02, I-03, I-27, A4, D8. Every scene was a hole once: the hub here commits what no honest hub would.
"""

import asyncio
import resource
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.agent.acceptance import catch_up
from holdfast.agent.agent import Agent
from holdfast.agent.link.order_results import UNSENT_MAX
from holdfast.model import canonical
from holdfast.model.checkin import CheckInAnswer
from holdfast.model.fleet import Component, Fleet, FleetDocument, Node, Service, Volume
from holdfast.model.manifest import NodeManifest
from holdfast.model.order import Delivered, HubOrder
from holdfast.model.record import Link
from holdfast.model.report import Pulse
from holdfast.model.revision import (
    Candidate,
    Entry,
    Head,
    Tombstone,
    decode_header,
    digest_of,
    encode_header,
)
from holdfast.planning.service_entry import serving_metadata
from tests.fleets.agents import Lone, PaperHub, turn
from tests.fleets.build import ALICE_SIGNER, START_S, digest_pinned, sign, small_service
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_agent_accepts import CAROL_SIGNER, SCOPED_SIGNER, chain, fleet, with_volume
from tests.scenarios.test_agent_orders import Scene, deliver, id_of, order, play

Edit = Callable[[NodeManifest, dict[str, bytes]], NodeManifest]


def one(**services: Service) -> Fleet:
    """Everything on one node, so that its manifest is the whole story."""
    return fleet(("w1",), **services)


WEB, DATABASE = small_service("web"), with_volume(1, "data")
FIRST = (one(web=WEB, db=DATABASE), ALICE_SIGNER)


def put(blobs: dict[str, bytes], value: object) -> str:
    content = value if isinstance(value, bytes) else canonical.encode(value)
    blobs[canonical.digest(content)] = content
    return canonical.digest(content)


def entry_for(service: Service, blobs: dict[str, bytes], epoch: int = 1) -> Entry:
    return Entry(put(blobs, service), "w1", epoch, *serving_metadata(service))


class Stolen:
    """A hub that makes up manifests and has them signed by whomever it found a key of."""

    def __init__(self, loop: VirtualLoop, *steps: tuple[Fleet, Any]) -> None:
        self.hub = PaperHub(*chain(*(steps or (FIRST,))))
        self.lone = Lone(loop, self.hub)

    @property
    def manifest(self) -> NodeManifest:
        """The last one that was signed for this node."""
        headers = [decode_header(candidate.header) for candidate in self.hub.candidates]
        named = [header.manifests["w1"] for header in headers if "w1" in header.manifests]
        return canonical.decode(self.content(named[-1]), NodeManifest, "the manifest")

    def content(self, digest: str) -> bytes:
        return self.hub._blobs()[digest]

    def forge(self, edit: Edit | None, signer: Any = CAROL_SIGNER) -> str:
        """The next revision, with this node's manifest as `edit` makes it; None leaves the node out."""
        last = self.hub.candidates[-1]
        header, blobs = decode_header(last.header), dict[str, bytes]()
        named: dict[str, str] = {}
        if edit is not None:
            named["w1"] = put(blobs, edit(self.manifest, blobs))
        after = replace(header, number=header.number + 1, parent=digest_of(last.header), manifests=named)
        blobs[header.trust] = self.content(header.trust)
        self.hub.candidates.append(sign(Candidate(encode_header(after), last.table, blobs), signer))
        return named.get("w1", "")

    def evil_node(self, blobs: dict[str, bytes]) -> Entry:
        node = msgspec.json.decode(self.content(self.manifest.own.digest), type=Node)
        return Entry(put(blobs, replace(node, orphans="remove", direct="on", orphans_foreign=True)))

    def evil_settings(self, blobs: dict[str, bytes]) -> str:
        document = msgspec.json.decode(self.content(self.manifest.settings), type=FleetDocument)
        return put(blobs, replace(document, settings=replace(document.settings, removals_max=10**6)))


def parked(agent: Agent) -> list[str]:
    return [one.address for one in agent.accepting.parked]


def codes(agent: Agent) -> list[str]:
    return [finding.code for finding in agent.findings.all()]


def in_force(agent: Agent) -> NodeManifest:
    assert agent.accepting.in_force is not None
    return agent.accepting.in_force


def with_service(manifest: NodeManifest, name: str, entry: Entry | None) -> NodeManifest:
    left = {a: e for a, e in manifest.services.items() if a != f"service.{name}"}
    return replace(manifest, services=left | ({f"service.{name}": entry} if entry else {}))


# ---- manifests that are none


def shadowed(stolen: Stolen, old: NodeManifest, blobs: dict[str, bytes]) -> NodeManifest:
    service = Service((Component("main", digest_pinned("evil"), volumes=("/:/host",)),))
    shadows = {"fleet": Entry(old.settings), "node.w1": old.own, "service.db": old.services["service.db"]}
    evil = replace(old, own=stolen.evil_node(blobs), settings=stolen.evil_settings(blobs), storage=shadows)
    return with_service(evil, "db", entry_for(service, blobs))


def another_name(stolen: Stolen, old: NodeManifest, blobs: dict[str, bytes]) -> NodeManifest:
    return replace(old, node="zz", own=stolen.evil_node(blobs))


def another_fleet(stolen: Stolen, old: NodeManifest, blobs: dict[str, bytes]) -> NodeManifest:
    return replace(old, fleet="f" * 64)


def no_service(stolen: Stolen, old: NodeManifest, blobs: dict[str, bytes]) -> NodeManifest:
    return replace(old, services=old.services | {"policy.x": stolen.evil_node(blobs)})


def no_name(stolen: Stolen, old: NodeManifest, blobs: dict[str, bytes]) -> NodeManifest:
    return replace(old, policies={"policy.../x": stolen.evil_node(blobs)})


def somewhere_else(stolen: Stolen, old: NodeManifest, blobs: dict[str, bytes]) -> NodeManifest:
    return with_service(old, "web", replace(old.services["service.web"], node="w2"))


def buried_fleet(stolen: Stolen, old: NodeManifest, blobs: dict[str, bytes]) -> NodeManifest:
    return replace(old, retired={"fleet": Tombstone(old.settings, 2)})


def test_a_refusal_is_over_when_the_hub_shows_what_this_node_accepted_x23() -> None:
    """Not only with the next revision; the audit log keeps it."""

    async def scene(loop: VirtualLoop) -> None:
        stolen = Stolen(loop)
        agent = await stolen.lone.turned()
        stolen.lone.hub.bend = lambda answer: replace(answer, head=Head(answer.head.number, "0" * 64))
        await turn(agent)
        assert codes(agent) == ["revision_refused"]
        stolen.lone.hub.bend = lambda answer: answer
        await turn(agent)
        assert codes(agent) == []

    run(scene)


@pytest.mark.parametrize(
    "edit",
    [shadowed, another_name, another_fleet, no_service, no_name, somewhere_else, buried_fleet],
    ids=lambda edit: edit.__name__,
)
@pytest.mark.parametrize("signer", [SCOPED_SIGNER, ALICE_SIGNER], ids=["ci", "alice"])
def test_a_manifest_that_holdfast_would_not_make_is_refused_whoever_signed_it(
    edit: Callable[[Stolen, NodeManifest, dict[str, bytes]], NodeManifest], signer: Any
) -> None:
    """I-02: one kind of resource cannot hide behind another's address, nor a node behind another's name."""

    async def scene(loop: VirtualLoop) -> None:
        stolen = Stolen(loop)
        agent = await stolen.lone.turned()
        before = in_force(agent)
        stolen.forge(lambda old, blobs: edit(stolen, old, blobs), signer)
        await turn(agent)
        assert agent.accepting.seen.number == 1 and codes(agent) == ["revision_refused"]
        assert in_force(agent) == before

    run(scene)


def test_a_misshapen_manifest_in_the_middle_does_not_lock_a_node_out() -> None:
    """It stays unread, and what follows is judged as if its signer had brought all of it."""

    async def scene(loop: VirtualLoop) -> None:
        stolen = Stolen(loop)
        agent = await stolen.lone.turned()
        good = stolen.manifest
        stolen.forge(lambda old, blobs: another_name(stolen, old, blobs))

        def next_one(old: NodeManifest, blobs: dict[str, bytes]) -> NodeManifest:
            web = with_service(good, "web", entry_for(small_service("web", 2), blobs))
            return with_service(web, "db", entry_for(with_volume(1), blobs))

        stolen.forge(next_one, ALICE_SIGNER)
        await turn(agent)
        assert agent.accepting.seen.number == 3 and parked(agent) == ["service.db"]
        assert in_force(agent).services["service.web"] != good.services["service.web"]

    run(scene)


# ---- first contact


def test_the_vouched_manifest_is_not_optional() -> None:
    """design §3 Enrolment: withheld, nothing is followed; handed out, the next revision is judged against it."""

    async def scene(loop: VirtualLoop) -> None:
        stolen = Stolen(loop)
        known, vouched = stolen.hub.head, decode_header(stolen.hub.candidates[0].header).manifests["w1"]
        stolen.forge(lambda old, blobs: replace(old, own=stolen.evil_node(blobs), settings=stolen.evil_settings(blobs)))
        stolen.lone.membership = replace(stolen.lone.membership, head=known)
        stolen.hub.lost.add(vouched)
        agent = stolen.lone.start()
        trouble = await turn(agent)
        assert trouble is not None and trouble.code == "content_missing" and "node invite w1" in trouble.remedy
        await asyncio.sleep(2 * catch_up.WITHHELD_S)
        await turn(agent)
        assert agent.accepting.newest is None and agent.accepting.own() is None
        assert codes(agent) == ["revision_waits"]
        stolen.hub.lost.clear()
        await turn(agent)
        assert parked(agent) == ["fleet", "node.w1"]
        own = agent.accepting.own()
        assert own is not None and (own[0].orphans, own[0].direct, own[1].removals_max) == ("report", "off", 3)

    run(scene)


def test_what_came_before_the_token_is_not_asked_for() -> None:
    async def scene(loop: VirtualLoop) -> None:
        whole = chain(FIRST, (LOST, CAROL_SIGNER))
        hub = PaperHub(*whole)
        hub.lost = {decode_header(whole[0].header).manifests["w1"]}
        agent = await Lone(loop, hub).turned()
        assert agent.accepting.seen == hub.head and (parked(agent), codes(agent)) == ([], [])

    run(scene)


def test_nobody_starts_a_node_without_the_grade_that_adds_one() -> None:
    """The vouched revision does not name the node yet; a key of grade apply cannot say what it is."""

    async def scene(loop: VirtualLoop) -> None:
        steps = [(fleet(("w2",), web=WEB), ALICE_SIGNER), (fleet(("w1", "w2"), web=WEB), CAROL_SIGNER)]
        hub = PaperHub(*chain(*steps))
        lone = Lone(loop, hub, "w1", PaperHub(*chain(*steps[:1])).head)
        agent = await lone.turned()
        assert lone.acceptance.newest() is None and codes(agent) == ["revision_refused"]
        assert "node invite w1 --replace" in agent.findings.all()[0].remedy
        # what that remedy makes works: the token of a new invite vouches for what is applied now
        lone.membership = replace(lone.membership, head=hub.head)
        agent = await lone.turned()
        assert agent.accepting.seen == hub.head and parked(agent) == []

    run(scene)


def test_an_operator_who_may_add_a_node_starts_it_after_the_invite() -> None:
    async def scene(loop: VirtualLoop) -> None:
        steps = [(fleet(("w2",), web=WEB), ALICE_SIGNER), (fleet(("w1", "w2"), web=WEB), ALICE_SIGNER)]
        hub = PaperHub(*chain(*steps))
        lone = Lone(loop, hub, "w1", PaperHub(*chain(*steps[:1])).head)
        agent = await lone.turned()
        assert agent.accepting.seen == hub.head and (parked(agent), codes(agent)) == ([], [])

    run(scene)


# ---- protection and tombstones


@pytest.mark.parametrize("relabelled", [False, True], ids=["as it is", "entry says unprotected"])
def test_a_protected_service_is_neither_dropped_nor_made_anew_by_grade_apply(relabelled: bool) -> None:
    """C-08, W12: also in two steps, also when the entry beside its content was rewritten first."""

    async def scene(loop: VirtualLoop) -> None:
        stolen = Stolen(loop, (one(web=WEB, db=replace(DATABASE, protect=True)), ALICE_SIGNER))
        agent = await stolen.lone.turned()
        kept = in_force(agent).services["service.db"]
        assert kept.protect
        if relabelled:
            stolen.forge(lambda old, blobs: with_service(old, "db", replace(kept, protect=False)))
            await turn(agent)
            assert parked(agent) == ["service.db"]
        stolen.forge(lambda old, blobs: with_service(old, "db", None))
        await turn(agent)
        assert parked(agent) == ["service.db"] and in_force(agent).services["service.db"] == kept
        assert "protected" in agent.accepting.parked[0].reason
        weaker = replace(with_volume(1), protect=False, custody="hub")
        stolen.forge(lambda old, blobs: with_service(old, "db", entry_for(weaker, blobs)))
        await turn(agent)
        assert parked(agent) == ["service.db"] and in_force(agent).services["service.db"] == kept

    run(scene)


def test_what_was_dropped_here_is_remembered_here() -> None:
    """I-37: the node's own memory is the tombstone; a manifest that hides it, and a restart, change nothing."""

    async def scene(loop: VirtualLoop) -> None:
        stolen = Stolen(loop)
        agent = await stolen.lone.turned()
        kept = in_force(agent).services["service.db"]
        stolen.forge(lambda old, blobs: with_service(old, "db", None))
        await turn(agent)
        assert parked(agent) == [] and "service.db" not in in_force(agent).services
        agent = await stolen.lone.turned()
        weaker = replace(with_volume(1), custody="hub")
        stolen.forge(lambda old, blobs: with_service(old, "db", entry_for(weaker, blobs, 2)))
        await turn(agent)
        assert parked(agent) == ["service.db"] and "service.db" not in in_force(agent).services
        assert "custody" in agent.accepting.parked[0].reason and "data" in agent.accepting.parked[0].reason
        # with everything it had, it may come back by grade apply
        stolen.forge(lambda old, blobs: with_service(old, "db", replace(kept, epoch=2)))
        await turn(agent)
        assert parked(agent) == [] and in_force(agent).services["service.db"].digest == kept.digest

    run(scene)


def test_a_tombstone_that_a_hub_makes_up_opens_no_host_path() -> None:
    """A buried content counts as what was there before, so nobody but the node itself may bury."""

    async def scene(loop: VirtualLoop) -> None:
        stolen = Stolen(loop)
        agent = await stolen.lone.turned()
        evil = Service((Component("main", digest_pinned("evil"), volumes=("/:/host",)),))
        stolen.forge(lambda old, blobs: with_service(old, "x", entry_for(evil, blobs)))
        await turn(agent)
        assert parked(agent) == ["service.x"]
        digest = stolen.manifest.services["service.x"].digest
        stolen.forge(
            lambda old, blobs: replace(with_service(old, "x", None), retired={"service.x": Tombstone(digest, 3, "w1")})
        )
        await turn(agent)
        stolen.forge(lambda old, blobs: with_service(old, "x", entry_for(evil, blobs, 2)))
        await turn(agent)
        assert parked(agent) == ["service.x"] and "service.x" not in in_force(agent).services

    run(scene)


def test_a_volume_cannot_hide_behind_another_of_its_name() -> None:
    """The rules compare volumes by name: a content with two of one name is judged by nobody, so it is parked."""

    async def scene(loop: VirtualLoop) -> None:
        stolen = Stolen(loop)
        agent = await stolen.lone.turned()
        kept = in_force(agent).services["service.db"]
        volumes = (Volume("data", "/elsewhere", "none"), Volume("data", "/data", "backup"))
        doubled = Service((replace(DATABASE.components[0], volumes=volumes),))
        stolen.forge(lambda old, blobs: with_service(old, "db", entry_for(doubled, blobs)))
        await turn(agent)
        assert parked(agent) == ["service.db"] and in_force(agent).services["service.db"] == kept

    run(scene)


# ---- signatures of others


LOST = one(web=WEB, db=with_volume(1))  # without its volume
LATER = one(web=small_service("web", 2), db=with_volume(1))


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "after a sleep"])
@pytest.mark.parametrize("left_out", [False, True], ids=["named", "left out in between"])
def test_a_later_signature_releases_nothing_it_does_not_touch(at_once: bool, left_out: bool) -> None:
    """design §2: the operator is shown web, so his signature says nothing about db; not even after a revision that
    does not name the node at all."""

    async def scene(loop: VirtualLoop) -> None:
        steps = [FIRST, (LOST, CAROL_SIGNER), (LATER, ALICE_SIGNER)]
        later = chain(*steps)[2]
        stolen = Stolen(loop)
        agent = await stolen.lone.turned()
        kept = in_force(agent).services["service.db"]
        stolen.hub.candidates = chain(*steps[:2])
        lost = stolen.manifest
        if not at_once:
            await turn(agent)
            assert parked(agent) == ["service.db"]
        if left_out:
            stolen.forge(None)
            if not at_once:
                await turn(agent)
                assert codes(agent) == ["not_in_revision"] and parked(agent) == ["service.db"]
        wanted = canonical.decode(later.blobs[decode_header(later.header).manifests["w1"]], NodeManifest, "it")
        assert wanted.services["service.db"] == lost.services["service.db"]

        def signed_later(old: NodeManifest, blobs: dict[str, bytes]) -> NodeManifest:
            blobs |= later.blobs
            return wanted

        stolen.forge(signed_later, ALICE_SIGNER)
        await turn(agent)
        assert agent.accepting.seen == stolen.hub.head
        assert parked(agent) == ["service.db"] and in_force(agent).services["service.db"] == kept
        assert in_force(agent).services["service.web"] == wanted.services["service.web"]
        again = await stolen.lone.turned()
        assert parked(again) == ["service.db"]

    run(scene)


def test_what_is_parked_is_released_by_the_commands_its_remedy_names() -> None:
    """`holdfast rollback` ends it; then `holdfast apply` with a key of grade destroy brings it, if it is wanted."""

    async def scene(loop: VirtualLoop) -> None:
        steps = [FIRST, (LOST, CAROL_SIGNER), FIRST, (LOST, ALICE_SIGNER)]
        whole = chain(*steps)
        hub = PaperHub(*whole[:2])
        agent = await Lone(loop, hub, "w1", PaperHub(whole[0]).head).turned()
        assert parked(agent) == ["service.db"]
        remedy = agent.accepting.parked[0].remedy
        assert remedy.index("`holdfast rollback`, then") < remedy.index("holdfast apply --key")
        hub.candidates.append(whole[2])
        await turn(agent)
        assert parked(agent) == []
        hub.candidates.append(whole[3])
        await turn(agent)
        assert parked(agent) == []
        lost = msgspec.json.decode(hub._blobs()[in_force(agent).services["service.db"].digest], type=Service)
        assert lost.components[0].volumes == ()

    run(scene)


def test_a_withheld_manifest_is_waited_for_and_then_read_the_strictest_way() -> None:
    """A hub that keeps back what carol brought does not get it judged by alice's signature; one that lost it for good
    does not lock the node out."""

    async def scene(loop: VirtualLoop) -> None:
        whole = chain(FIRST, (LOST, CAROL_SIGNER), (LATER, ALICE_SIGNER))
        hub = PaperHub(whole[0])
        lone = Lone(loop, hub)
        agent = await lone.turned()
        kept = in_force(agent).services["service.db"]
        hub.candidates = whole
        hub.lost = {decode_header(whole[1].header).manifests["w1"]}
        trouble = await turn(agent)
        assert trouble is not None and trouble.code == "content_missing" and agent.accepting.seen.number == 1
        assert codes(agent) == ["revision_waits"]
        await asyncio.sleep(catch_up.WITHHELD_S + 1)
        await turn(agent)
        assert agent.accepting.seen == hub.head and parked(agent) == ["service.db"] and codes(agent) == []
        assert in_force(agent).services["service.db"] == kept
        assert in_force(agent).services["service.web"].digest != kept.digest

    run(scene)


@pytest.mark.parametrize("first", [CAROL_SIGNER, ALICE_SIGNER], ids=["carol", "alice"])
def test_a_node_that_slept_for_long_parks_what_nobody_can_account_for(first: Any) -> None:
    """Beyond what a hub remembers, a change passes only if everybody who may have brought it could have."""

    async def scene(loop: VirtualLoop) -> None:
        rest = [(one(web=small_service("web", n), db=with_volume(1)), ALICE_SIGNER) for n in range(2, 112)]
        whole = chain(FIRST, (LOST, first), *rest)
        hub = PaperHub(whole[0])
        agent = await Lone(loop, hub).turned()
        hub.candidates = whole
        hub.lost = {decode_header(c.header).manifests["w1"] for c in whole[1 : -catch_up.REVISIONS_BACK]}
        assert hub.lost
        await turn(agent)
        assert agent.accepting.seen == hub.head
        assert parked(agent) == (["service.db"] if first is CAROL_SIGNER else [])

    run(scene)


def test_what_was_never_read_is_nobodys_word_later_either() -> None:
    """Carol's revision is followed by so many without this node that no hub hands hers out any more."""

    async def scene(loop: VirtualLoop) -> None:
        stolen = Stolen(loop)
        agent = await stolen.lone.turned()
        kept = in_force(agent).services["service.db"]
        weaker: Edit = lambda old, blobs: with_service(old, "db", entry_for(with_volume(1), blobs))  # noqa: E731
        before = stolen.manifest
        stolen.hub.lost.add(stolen.forge(weaker))
        for _ in range(catch_up.REVISIONS_BACK):
            stolen.forge(None, ALICE_SIGNER)
        await turn(agent)
        assert agent.accepting.seen == stolen.hub.head and codes(agent) == ["not_in_revision"]
        agent = await stolen.lone.turned()

        def later(old: NodeManifest, blobs: dict[str, bytes]) -> NodeManifest:
            return with_service(weaker(before, blobs), "web", entry_for(small_service("web", 2), blobs))

        stolen.forge(later, ALICE_SIGNER)
        await turn(agent)
        assert agent.accepting.seen == stolen.hub.head and "service.db" in parked(agent)
        assert in_force(agent).services["service.db"] == kept
        agent = await stolen.lone.turned()
        assert "service.db" in parked(agent)
        stolen.forge(lambda old, blobs: with_service(old, "db", entry_for(with_volume(2), blobs)), ALICE_SIGNER)
        await turn(agent)
        assert "service.db" not in parked(agent)

    run(scene)


# ---- orders


def test_an_order_from_before_this_node_could_remember_does_not_run_again() -> None:
    """I-27, W16: the machine died and joined anew under its name, or lost its memory; the hub kept the order."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        purge = order(expires_s=7 * 86_400)
        await deliver(agent, s, purge)
        assert "old" not in s.data
        await asyncio.sleep(86_400)
        s.lone = Lone(s.loop, s.hub)
        s.lone.clock.skew_s = s.loop.time()
        s.hub.time_s = lambda: START_S + s.loop.time()
        s.data["old"] = {"restored": b"x"}
        agent = await s.lone.turned()
        await deliver(agent, s, purge, attempt=5)
        assert s.data == {"old": {"restored": b"x"}}
        refused = s.results(id_of(purge))[-1]
        assert (refused.outcome, refused.code) == ("refused", "before_birth") and "order sign" in refused.remedy
        agent = await s.lone.turned()  # and a restart is no birth
        anew = order(counter=2, at_s=s.lone.clock.now_s() - 30)
        await asyncio.sleep(3600)
        agent = await s.lone.turned()
        await deliver(agent, s, order(counter=3, at_s=s.lone.clock.now_s() - 3600, expires_s=7200))
        await deliver(agent, s, anew)
        assert s.lone.storage.destroyed == ["old"]

    play(scene)


def test_a_wrong_clock_does_not_set_a_birth_for_good() -> None:
    async def scene(s: Scene) -> None:
        s.lone.clock.skew_s = 10 * 365 * 86_400.0
        agent = await s.ready()
        late = order(at_s=s.lone.clock.now_s())
        await deliver(agent, s, late)
        assert "old" in s.data and "order_waits" in codes(agent)
        s.lone.clock.skew_s = 0.0
        await deliver(agent, s, order(counter=2))
        assert s.lone.storage.destroyed == ["old"]

    play(scene)


def test_a_hubs_own_request_never_answers_for_a_signed_order() -> None:
    """9B: the same id, two things; the purge runs, and its result is its own."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        purge = order()
        for action in ("renew-certificate", "ping"):
            await deliver(agent, s, HubOrder(id_of(purge), "w1", action))
        assert all("data.old" not in r.message for r in s.results(id_of(purge))) and "old" in s.data
        await deliver(agent, s, purge, attempt=2)
        assert "old" not in s.data and s.results(id_of(purge))[-1].message.startswith("data.old is gone")
        assert s.lone.journal.unsent(10) == []
        # and the other way round
        await deliver(agent, s, HubOrder(id_of(purge), "w1", "renew-certificate"), attempt=3)
        assert "data.old" not in s.results(id_of(purge))[-1].message

    play(scene)


def pulse_of(s: Scene) -> Pulse:
    return msgspec.json.decode([m.pulse.pulse for m in s.hub.said if m.pulse is not None][-1], type=Pulse)


def test_the_signed_pulse_says_what_became_of_orders() -> None:
    """9A: a hub cannot say `done` for the node. Only what operators signed is in it, also after a restart; no number of
    refusals pushes it out."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        assert pulse_of(s).results == {}
        purge, again, forged = order(), order(target="data.db"), order(counter=7)
        forged = replace(forged, signatures=(CAROL_SIGNER.sign(b"something else", "holdfast-order"),))
        await deliver(agent, s, purge, again, forged, HubOrder("a" * 32, "w1", "renew-certificate"))
        assert pulse_of(s).results == {id_of(purge): "done", id_of(again): "refused"}
        for n in range(100):
            await deliver(agent, s, order(action="exec", target=f"service.x{n}", counter=10 + n))
        told = pulse_of(s).results
        assert told[id_of(purge)] == "done" and len(told) == 17
        agent = await s.lone.turned()
        assert pulse_of(s).results == {id_of(purge): "done"}

    play(scene)


def test_a_hub_cannot_fill_a_node_with_its_wishes() -> None:
    """V-44: results nobody takes and refusals without end stay within bounds, and the log tells it in few lines."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        answer, sent = s.hub.check_in, 0

        async def flooding(message: Any) -> CheckInAnswer:
            nonlocal sent
            said = await answer(message)
            wishes = [HubOrder(f"{sent + n:032x}", "w1", "purge", "data.web") for n in range(256)]
            sent += 256
            endless = HubOrder("x" * 100_000, "w1", "purge", "data.web")
            orders = tuple(Delivered(1, None, one) for one in (*wishes[:255], endless))
            return replace(said, orders=orders, results_taken=())

        s.hub.check_in = flooding  # type: ignore[method-assign]
        for _ in range(40):
            await turn(agent)
        assert sent > 10_000
        assert len(agent.orders.results.unsent) <= UNSENT_MAX and "order_waits" in codes(agent)
        minutes = s.loop.time() // 60 + 1
        assert s.lone.audit.head().number <= 110 * minutes
        assert max(map(len, s.lone.audit.lines(0, 100_000))) < 2_000
        s.hub.check_in = answer  # type: ignore[method-assign]
        await asyncio.sleep(120)
        for _ in range(40):
            await turn(agent)
        assert not agent.orders.results.unsent and "old" in s.data
        counted = [e.count for e in s.lone.events() if e.result == "refused"]
        assert sum(counted) > 1000 > len(counted)
        await deliver(agent, s, order(at_s=s.lone.clock.now_s()))
        assert "old" not in s.data and codes(agent) == []

    play(scene)


def test_links_are_verified_page_by_page() -> None:
    """A chain without end costs its hub more than the node: the first link that does not hold ends it."""

    async def scene(s: Scene) -> None:
        agent = await s.ready()
        good, asked = s.hub.link(s.hub.candidates[0]), 0

        async def links(first: int, last: int) -> list[Link]:
            nonlocal asked
            asked += 1
            return [replace(good, trust_bytes=b"x" * (4_000_000 + n)) for n in range(3)] if asked <= 40 else []

        s.hub.links = links  # type: ignore[method-assign]
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number, pages in ((10**9, 0), (5_000_000, 1)):
            asked = 0
            s.hub.bend = lambda answer, n=number: replace(answer, head=Head(n, "f" * 64), links=())
            trouble = await turn(agent)
            assert trouble is not None and trouble.code == "revision_refused" and asked == pages
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 64 * 1024
        assert agent.accepting.seen.number == 1

    play(scene)
