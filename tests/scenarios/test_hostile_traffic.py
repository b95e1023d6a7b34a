"""A stolen hub with a key of small scope, and the public routes of services that key may not touch (A1, A5, I-02)."""

import pytest
from msgspec.structs import replace

from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Candidate
from holdfast.planning.plan import Inputs, plan
from tests.fleets.agents import Lone, PaperHub, turn
from tests.fleets.build import ALICE, ALICE_SIGNER, edge_fleet, joined, operator_signer, sign
from tests.fleets.forging import Edit, forged
from tests.fleets.virtual import VirtualLoop, run

CI, CI_SIGNER = operator_signer("ci", "apply", ("service.blog",))
CAROL, CAROL_SIGNER = operator_signer("carol", "apply")
HOST = "shop.example.test"
FLEET = edge_fleet(("shop", "blog"), operators=(ALICE, CAROL, CI))


def first() -> Candidate:
    planned = plan(FLEET, None, Inputs(identities=joined(FLEET)))
    assert planned.candidate is not None
    return sign(planned.candidate, ALICE_SIGNER)


def led_astray(old: NodeManifest) -> NodeManifest:
    route = old.edge[HOST]
    return replace(old, edge=old.edge | {HOST: replace(route, address="100.64.0.66")})


def vouched_by_a_stranger(old: NodeManifest) -> NodeManifest:
    return replace(old, issuers=old.issuers | {old.edge[HOST].node: b"certificate of the attacker"})


def taken_away(old: NodeManifest) -> NodeManifest:
    return replace(old, edge={name: route for name, route in old.edge.items() if name != HOST})


def taken_over(old: NodeManifest) -> NodeManifest:
    """The very service that this key may sign for answers for another one's hostname."""
    return replace(old, edge=old.edge | {HOST: old.edge["blog.example.test"]})


def unvouched(old: NodeManifest) -> NodeManifest:
    """Route and pin leave together: the route is refused, and must not be left without its pin."""
    node = old.edge[HOST].node
    kept = {name: pin for name, pin in old.issuers.items() if name != node}
    return replace(taken_away(old), issuers=kept)


def renamed(old: NodeManifest) -> NodeManifest:
    return replace(old, names={one: replace(named, address="100.64.0.66") for one, named in old.names.items()})


@pytest.mark.parametrize(
    "edit",
    [led_astray, vouched_by_a_stranger, taken_away, taken_over, unvouched, renamed],
    ids=lambda edit: edit.__name__,
)
def test_a_key_of_another_service_moves_no_public_route_no_pin_and_no_name(edit: Edit) -> None:
    """I-02, I-16, I-19, M-25: what an edge follows of `edge`, `issuers` and `names` needs the grade and the scope of
    the services and nodes that it is about, whatever a hub lets somebody commit."""

    async def scene(loop: VirtualLoop) -> None:
        hub = PaperHub(first())
        lone = Lone(loop, hub, "e1")
        agent = await lone.turned()
        before = agent.accepting.in_force
        assert before is not None and HOST in before.edge and before.issuers and before.names
        hub.candidates.append(forged(hub.candidates[-1], edit, CI_SIGNER, "e1"))
        await turn(agent)
        now = agent.accepting.in_force
        assert now is not None
        assert now.edge.get(HOST) == before.edge[HOST]
        assert now.issuers == before.issuers
        assert now.names["shop"] == before.names["shop"]

    run(scene)


def test_another_pin_of_a_known_node_needs_the_grade_of_its_identity() -> None:
    """I-02, M-25: grade apply may not re-key a node, so it may not change whom an edge believes in its place either."""

    async def scene(loop: VirtualLoop) -> None:
        hub = PaperHub(first())
        lone = Lone(loop, hub, "e1")
        agent = await lone.turned()
        before = agent.accepting.in_force
        assert before is not None
        hub.candidates.append(forged(hub.candidates[-1], vouched_by_a_stranger, CAROL_SIGNER, "e1"))
        await turn(agent)
        assert agent.accepting.in_force is not None and agent.accepting.in_force.issuers == before.issuers

    run(scene)
