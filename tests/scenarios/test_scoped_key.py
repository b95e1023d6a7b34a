"""A key of grade apply for one service against command line, hub and agents: no attack succeeds (X04, X11, X22).

The same list against rules weakened on purpose: each attack is effective, and each rule that is said to stop it does.
"""

import pytest
from msgspec.structs import replace

from holdfast.errors import HoldfastError, SignatureRequired
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model.applied import Applied
from holdfast.model.plan import Plan
from holdfast.model.revision import Candidate
from tests.fleets.agents import Lone, PaperHub, applied_after, turn
from tests.fleets.build import ALICE_SIGNER, mailbox, signed
from tests.fleets.scoped_suite import ATTACKS, ORDERS, Attack, effects, endorses, founded, signs, weakened
from tests.fleets.virtual import VirtualLoop, run

every_attack = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)


def before(attack: Attack) -> tuple[list[Candidate], Applied]:
    """The fleet up to the attack."""
    first = signed(founded(attack.base), ALICE_SIGNER, *(attack.signers if attack.base.thresholds.apply == 2 else ()))
    chain, applied = [first], applied_after(first, None)
    for step in attack.steps[:-1]:
        chain.append(signed(step(applied), ALICE_SIGNER, *attack.signers))
        applied = applied_after(chain[-1], applied)
    return chain, applied


def hub_with(chain: list[Candidate]) -> Revisions:
    hub = mailbox()
    for candidate in chain:
        hub.commit(candidate)
    return hub


def at_the_command_line(attack: Attack, planned: Plan, applied: Applied) -> bool:
    """Whether it would sign alone. Several signatures are collected in a file, which the hub judges."""
    if len(attack.signers) > 1:
        return False
    try:
        signs(planned, applied, attack.signers[0])
    except SignatureRequired as refused:
        assert refused.exit_code == 4
        return False
    return True


def at_the_hub(chain: list[Candidate], attempt: Candidate) -> bool:
    hub = hub_with(chain)
    head = hub.applied()
    assert head is not None
    try:
        hub.commit(attempt)
    except HoldfastError as refused:
        after = hub.applied()
        assert after is not None and after.head == head.head and refused.remedy
        return False
    return True


def on_the_nodes(attack: Attack, chain: list[Candidate], attempt: Candidate) -> set[str]:
    """What changes on nodes that a stolen hub gives the attempt, as NODE: ADDRESS."""

    async def scene(loop: VirtualLoop) -> set[str]:
        found: set[str] = set()
        for node in attack.where:
            hub = PaperHub(*chain[:1])
            agent = await Lone(loop, hub, node).turned()
            for candidate in chain[1:]:
                hub.candidates.append(candidate)
                await turn(agent)
            old = agent.accepting.in_force
            assert old is not None and agent.accepting.parked == ()
            hub.candidates.append(attempt)
            await turn(agent)
            now = agent.accepting.in_force
            assert now is not None
            found |= {f"{node}: {one}" for one in effects(old, now)}
        return found

    return run(scene)


@every_attack
def test_no_way_of_a_scoped_key_succeeds_x04_x11_x22(attack: Attack) -> None:
    chain, applied = before(attack)
    planned = attack.steps[-1](applied)
    attempt = signed(planned, *attack.signers)
    assert not at_the_command_line(attack, planned, applied)
    assert not at_the_hub(chain, attempt)
    assert on_the_nodes(attack, chain, attempt) == set()


@every_attack
def test_each_way_is_effective_against_weakened_rules(attack: Attack) -> None:
    with weakened(*attack.weak):
        chain, applied = before(attack)
        planned = attack.steps[-1](applied)
        attempt = signed(planned, *attack.signers)
        assert at_the_command_line(attack, planned, applied) or len(attack.signers) > 1
        assert at_the_hub(chain, attempt)
        assert on_the_nodes(attack, chain, attempt) or not attack.where


@every_attack
def test_each_rule_that_is_said_to_stop_it_does(attack: Attack) -> None:
    for rule in attack.weak:
        with weakened(*(other for other in attack.weak if other != rule)):
            chain, applied = before(attack)
            assert not at_the_hub(chain, signed(attack.steps[-1](applied), *attack.signers)), rule


def test_the_list_is_long_and_every_rule_stands_alone_somewhere() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 25
    assert {rule for attack in ATTACKS for rule in attack.weak} == {"address", "name", "place", "key", "grade"}


@pytest.mark.parametrize(("action", "target", "grade"), ORDERS, ids=lambda value: str(value))
def test_no_order_for_another_service_or_a_node_is_endorsed(action: str, target: str, grade: str) -> None:
    with pytest.raises(SignatureRequired):
        endorses(action, target, grade)  # type: ignore[arg-type]
    with weakened("address", "grade"):
        endorses(action, target, grade)  # type: ignore[arg-type]


def test_a_scope_with_more_items_gets_what_they_name() -> None:
    """Not only refusals: `name:` and `node:` items work."""
    named = next(attack for attack in ATTACKS if attack.name == "a name out of the signer's own pattern")
    chain, applied = before(named)
    from tests.fleets.scoped_suite import _named

    planned = _named("www.eu.example.test")(applied)
    signs(planned, applied, named.signers[0])
    attempt = signed(planned, *named.signers)
    assert at_the_hub(chain, attempt)
    assert on_the_nodes(replace(named, where=("e1",)), chain, attempt) == {"e1: edge.www.eu.example.test"}
