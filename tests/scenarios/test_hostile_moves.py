"""A stolen hub with a key of small scope, and moves of services that this key may not touch (A1, A5, I-02, I-20)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from holdfast.model.applied import Applied
from holdfast.model.fleet import Component, Service, Volume
from holdfast.model.manifest import NodeManifest
from holdfast.model.move import Peer
from holdfast.model.plan import Plan
from holdfast.model.revision import Candidate, decode_header, digest_of, encode_header
from holdfast.planning.kept_copy import plan_kept
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_move
from tests.fleets.agents import Lone, PaperHub, applied_after, turn
from tests.fleets.build import ALICE_SIGNER, digest_pinned, operator_signer, sign, signed
from tests.fleets.forging import Edit, forged
from tests.fleets.scoped_suite import BASE, CI_SIGNER, DBA_SIGNER, founded
from tests.fleets.virtual import VirtualLoop, run

VOLUME = Volume("data", "/data", "backup")
FLEET = replace(
    BASE,
    services={
        name: Service((Component("main", digest_pinned(name), volumes=(VOLUME,)),), node="w1") for name in ("web", "db")
    },
)
INTRUDER = Peer(operator_signer("an intruder")[0].key, "100.64.0.66")
SIDES = pytest.mark.parametrize(("node", "other"), [("w1", "w2"), ("w2", "w1")], ids=["source", "target"])


def chain(*moved: str) -> list[Candidate]:
    """web and db run on w1; then each of these moves to w2."""
    found = [signed(founded(FLEET), ALICE_SIGNER)]
    applied = applied_after(found[0], None)
    for service in moved:
        found.append(signed(plan_move(Wish(service, "w2"), applied, {}), ALICE_SIGNER))
        applied = applied_after(found[-1], applied)
    return found


def led_to_an_intruder(old: NodeManifest) -> NodeManifest:
    return replace(old, peers=dict.fromkeys(old.peers, INTRUDER))


def led_elsewhere(old: NodeManifest) -> NodeManifest:
    """The key of the other node, at an address that it does not have."""
    return replace(old, peers={name: replace(peer, address=INTRUDER.address) for name, peer in old.peers.items()})


def left_alone(old: NodeManifest) -> NodeManifest:
    return replace(old, peers={})


def peers_after(node: str, candidates: list[Candidate], attempt: Candidate) -> tuple[dict[str, Peer], dict[str, Peer]]:
    """What this node follows before and after the attempt."""

    async def scene(loop: VirtualLoop) -> tuple[dict[str, Peer], dict[str, Peer]]:
        hub = PaperHub(*candidates[:1])
        agent = await Lone(loop, hub, node).turned()
        for candidate in candidates[1:]:
            hub.candidates.append(candidate)
            await turn(agent)
        before = agent.accepting.in_force
        hub.candidates.append(attempt)
        await turn(agent)
        now = agent.accepting.in_force
        assert before is not None and now is not None
        return before.peers, now.peers

    return run(scene)


@SIDES
@pytest.mark.parametrize("edit", [led_to_an_intruder, led_elsewhere, left_alone], ids=lambda edit: edit.__name__)
def test_a_key_of_another_service_does_not_choose_where_data_goes_or_comes_from(
    node: str, other: str, edit: Edit
) -> None:
    """The data of db is sealed to the key in `peers`, and a word about it counts if that key signed it."""
    moving = chain("db")
    before, now = peers_after(node, moving, forged(moving[-1], edit, CI_SIGNER, node))
    assert set(before) == {other} and now == before


@SIDES
def test_a_peer_that_nothing_moves_to_or_from_needs_the_grade_of_the_nodes_key(node: str, other: str) -> None:
    """Else the next move would find it there."""
    still = chain()

    def planted(old: NodeManifest) -> NodeManifest:
        return replace(old, peers={other: INTRUDER})

    assert peers_after(node, still, forged(still[-1], planted, CI_SIGNER, node))[1] == {}


@SIDES
def test_what_a_key_brought_for_its_own_service_is_not_used_for_another_one(node: str, other: str) -> None:
    """A key of web led the move of web astray, which is about its own data. The move of db then names the real one."""
    first = chain("web")
    stray = forged_move(first, node)
    before, now = peers_after(node, [first[0], stray], moved_on(stray, first))
    assert before == {other: INTRUDER} and now.get(other) != INTRUDER


def forged_move(candidates: list[Candidate], node: str) -> Candidate:
    """The move of web, with the manifest of one node led astray, as a key for web and its place signs it."""
    real = candidates[-1]
    stray = forged(real, led_to_an_intruder, CI_SIGNER, node)
    header = decode_header(stray.header)
    same = replace(header, number=header.number - 1, parent=decode_header(real.header).parent)
    return sign(replace(stray, header=encode_header(same)), CI_SIGNER)


def moved_on(stray: Candidate, candidates: list[Candidate]) -> Candidate:
    """db moves as well, signed by a key for db alone."""
    applied = applied_after(candidates[-1], applied_after(candidates[0], None))
    planned = signed(plan_move(Wish("db", "w2"), applied, {}), DBA_SIGNER)
    header = replace(decode_header(planned.header), parent=digest_of(stray.header))
    return sign(replace(planned, header=encode_header(header)), DBA_SIGNER)


@SIDES
def test_a_move_brings_its_peer_with_the_scope_of_its_service(node: str, other: str) -> None:
    """Not only refusals."""
    first = chain()
    move = chain("web")[-1]
    assert set(peers_after(node, first, sign(move, CI_SIGNER))[1]) == {other}


def copy_kept(applied: Applied) -> Plan:
    return plan_kept("db", "w2", applied)


def older_data(applied: Applied) -> Plan:
    return plan_move(Wish("db", "w2", backup="0" * 64, key=b"sealed"), applied, {})


@pytest.mark.parametrize("planned", [copy_kept, older_data], ids=lambda planned: planned.__name__)
def test_a_node_starts_with_older_data_only_if_grade_destroy_said_so(planned: Callable[[Applied], Plan]) -> None:
    """Nothing is handed over then: a stolen hub that shows it to this node alone would have two copies run."""
    first = chain()
    attempt = signed(planned(applied_after(first[0], None)), DBA_SIGNER)

    async def runs(loop: VirtualLoop, candidate: Candidate) -> bool:
        hub = PaperHub(*first)
        agent = await Lone(loop, hub, "w2").turned()
        hub.candidates.append(candidate)
        await turn(agent)
        assert agent.accepting.in_force is not None
        return "service.db" in agent.accepting.in_force.services

    assert not run(lambda loop: runs(loop, attempt))
    assert run(lambda loop: runs(loop, sign(attempt, ALICE_SIGNER)))
