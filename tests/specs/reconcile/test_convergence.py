"""Any desired after any other converges and then rests, whatever crashes on the way (I-23, I-28, H-23, H-70, T-06)."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.model.container import Guest, Part
from holdfast.reconcile import drift
from holdfast.reconcile.rollout import is_settled, keepers_of, next_steps
from tests.specs.reconcile.guests import ROUTE, part
from tests.specs.reconcile.simulated import World

COMPONENTS = ("web", "db", "job")
VOLUMES = ("data", "files", "", "")
EXAMPLES = 120


def drawn(draw: st.DrawFn, component: str, network: str, volume: str, versions: tuple[str, ...]) -> Part:
    hooks = {when: ("run",) for when in ("pre_deploy", "post_deploy") if draw(st.booleans()) and draw(st.booleans())}
    return part(
        component,
        draw(st.sampled_from(versions)),
        replicas=1 if volume else draw(st.integers(1, 3)),
        volume=volume,
        recreate=draw(st.booleans()) and draw(st.booleans()),
        network=network,
        routes=(ROUTE,) if draw(st.booleans()) else (),
        **hooks,
    )


@st.composite
def guests(draw: st.DrawFn, versions: tuple[str, ...] = ("1", "2", "sick"), active: Any = None) -> Guest:
    names = draw(st.lists(st.sampled_from(COMPONENTS), min_size=1, max_size=3, unique=True))
    network = "hf-net" if len(names) > 1 else ""
    volumes = draw(st.permutations(VOLUMES))  # unique: two of one service share one on purpose or not at all
    chosen = tuple(drawn(draw, name, network, volumes[at], versions) for at, name in enumerate(names))
    on = True if active is None else draw(active)
    return Guest("shop", "", 0, chosen, on)


MOSTLY = st.integers(0, 5).map(lambda n: n > 0)
WISHES = st.lists(st.one_of(st.none(), guests(active=MOSTLY), guests(active=MOSTLY)), min_size=1, max_size=4)
TROUBLES = st.lists(
    st.tuples(
        st.integers(0, 25),
        st.sampled_from(["crash", "crash for good", "agent", "vanish", "hold", "release"]),
        st.integers(0, 9),
    ),
    max_size=6,
)


def wish(world: World, guest: Guest | None, number: int) -> None:
    world.want(None if guest is None else replace(guest, deployment=f"d{number}"))


def disturb(world: World, kind: str, which: int) -> None:
    ids = sorted(world.rooms)
    if kind == "agent":
        world.forget()
    elif kind in ("hold", "release"):
        world.held = kind == "hold"
    elif ids and kind == "vanish":
        world.vanish(ids[which % len(ids)])
    elif ids:
        world.crash(ids[which % len(ids)], comes_back=kind == "crash")


def at_rest(world: World) -> None:
    """Everything that must be is, and nothing else."""
    target, here = world.target, world.here()
    assert next_steps(target, here) == ()
    alive = [seen for seen in here.containers if seen.alive]
    if target is None:
        assert not here.containers and not world.routed
        return
    if here.held or not target.active:
        assert not alive and not world.routed
        return
    assert is_settled(target, world.serving)
    keepers = keepers_of(target, here)
    assert len(keepers) == sum(part.replicas for part in target.parts) == len(here.containers) == len(alive)
    assert all(seen.health == "healthy" for seen in keepers.values())
    routed = {seen.container.id for (name, _), seen in keepers.items() if name in with_routes(target)}
    assert world.routed is None or world.routed == routed
    assert drift.service("shop", target, here) == ()


def with_routes(guest: Guest) -> set[str]:
    return {part.spec.component for part in guest.parts if part.routes}


@settings(max_examples=EXAMPLES, deadline=None)
@given(wishes=WISHES, proxied=st.booleans())
def test_any_desired_after_any_other_converges_and_then_rests(wishes: list[Guest | None], proxied: bool) -> None:
    world = World(proxied)
    for number, wanted in enumerate(wishes):
        wish(world, wanted, number)
        world.run()
        at_rest(world)
        assert world.run() == 0


@settings(max_examples=EXAMPLES, deadline=None)
@given(wishes=WISHES, proxied=st.booleans(), troubles=TROUBLES, cuts=st.lists(st.integers(0, 20), max_size=4))
def test_it_converges_whatever_crashes_vanishes_is_held_or_changes_on_the_way(
    wishes: list[Guest | None], proxied: bool, troubles: list[tuple[int, str, int]], cuts: list[int]
) -> None:
    """A wish may be cut short by the next one; every promise is checked by the world after each step."""
    world = World(proxied)
    for number, wanted in enumerate(wishes):
        wish(world, wanted, number)
        for taken in range(cuts[number] if number < len(cuts) else 25):
            for moment, kind, which in troubles:
                if moment == taken:
                    disturb(world, kind, which)
            world.step()
    world.held = False
    world.tried.clear()  # back-off ends
    world.run()
    world.tried.clear()
    world.run()
    at_rest(world)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    before=st.one_of(st.none(), guests(("1", "2"))), after=guests(), proxied=st.booleans(), forgets=st.integers(0, 30)
)
def test_after_a_failed_attempt_the_old_set_is_back_exactly(
    before: Guest | None, after: Guest, proxied: bool, forgets: int
) -> None:
    """The same containers, living as before; a hook that fails, a newcomer that is sick, and the agent killed once."""
    world = World(proxied)
    wish(world, before, 0)
    world.run()
    was = {id: (room.container, room.word) for id, room in world.rooms.items()}
    routed, serving = world.routed, world.serving
    sick = replace(after, parts=(*after.parts, part("api", "sick", network="hf-net")))
    wish(world, sick, 1)
    for taken in range(400):
        if taken == forgets:
            world.forget()
        if not world.step():
            break
    assert world.failed == "d1"
    now = {id: (replace(room.container, exit_code=0), room.word) for id, room in world.rooms.items()}
    assert now == was and (world.routed, world.serving) == (routed, serving)
    assert ("d1", "pre_deploy") not in {(who, when) for who, _, when in world.hooks_run if who == "d0"}


@settings(max_examples=60, deadline=None)
@given(before=st.one_of(st.none(), guests(("1",))), after=guests(("2",)), at=st.integers(0, 2))
def test_a_hook_that_fails_before_the_deploy_leaves_everything_as_it_was(
    before: Guest | None, after: Guest, at: int
) -> None:
    world = World()
    wish(world, before, 0)
    world.run()
    was = {id: room.container for id, room in world.rooms.items()}
    at %= len(after.parts)
    failing = replace(after.parts[at], pre_deploy=("fails",))
    wish(world, replace(after, parts=(*after.parts[:at], failing, *after.parts[at + 1 :])), 1)
    world.run()
    assert world.failed == "d1"
    assert {id: room.container for id, room in world.rooms.items()} == was


@settings(max_examples=60, deadline=None)
@given(wishes=st.lists(guests(("1", "2")), min_size=1, max_size=3), forgets=st.sets(st.integers(0, 30), max_size=3))
def test_hooks_run_once_for_each_deployment_also_when_the_agent_is_killed(
    wishes: list[Guest], forgets: set[int]
) -> None:
    world = World()
    for number, wanted in enumerate(wishes):
        wish(world, wanted, number)
        for taken in range(400):
            if taken in forgets:
                world.forget()
            if not world.step():
                break
    owed = {
        (f"d{number}", part.spec.component, when)
        for number, wanted in enumerate(wishes)
        for part in wanted.parts
        for when, command in (("pre_deploy", part.pre_deploy), ("post_deploy", part.post_deploy))
        if command
    }
    assert sorted(world.hooks_run) == sorted(owed)
