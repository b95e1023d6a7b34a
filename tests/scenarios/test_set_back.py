"""State put back to an older copy shows itself: no order runs twice, no fork, a remedy that works (X05, X14, X15)."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import combinations
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.membership import decode
from holdfast.errors import NotPermitted
from holdfast.hub.nodes.node_contents import Belongings
from holdfast.hub.orders import queue as order_queue
from holdfast.model import canonical
from holdfast.model.order import NAMESPACE, SignedOrder, decode_order
from holdfast.model.order_view import OrderRecord
from holdfast.model.report import Pulse
from tests.fleets.build import ALICE_SIGNER
from tests.fleets.put_back import PARTS, TOLD_S, World
from tests.fleets.virtual import VirtualLoop, run

HOUR_S = 3600.0


class Case(Struct, frozen=True):
    """`first`: the copy is taken right before the first order, in the same life; else after some, between two lives.
    `waits_s`: the hub sends old orders so long after the start. `withholds`: the hub does not show the node its own
    pulses. `lost`: nothing replaces it."""

    parts: tuple[str, ...]
    first: bool = False
    waits_s: float = 0.0
    withholds: bool = False
    lost: bool = False

    @property
    def id(self) -> str:
        marks = [name for name in ("first", "withholds", "lost") if getattr(self, name)]
        return " ".join(["+".join(self.parts), *marks, *(["late"] if self.waits_s else [])])

    @property
    def node(self) -> bool:
        return "state" in self.parts or "agent.db" in self.parts


CASES = [
    *(Case(parts) for count in (1, 2) for parts in combinations(PARTS, count)),
    Case(("state",), first=True),
    Case(("agent.db",), first=True, withholds=True),
    Case(("state",), waits_s=HOUR_S),
    Case(("state",), withholds=True),
    Case(("agent.db",), lost=True),
]


def play(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    """The files are in memory: what a flush costs is no part of it."""

    async def main(loop: VirtualLoop) -> None:
        world = World(loop, Path(folder))
        await world.w2.join()
        await world.start_agent()
        await world.both_follow()
        world.does("apply", "--detach")  # records the keys of the nodes
        await world.both_follow()
        await story(world)
        world.stop_hub()
        await world.stop_agent()

    with TemporaryDirectory(dir="/dev/shm") as folder:
        run(main)


async def pause(world: World, copy: str) -> None:
    """Stop everything, copy everything, start again."""
    await world.stop_agent()
    world.stop_hub()
    world.copy(copy)
    world.start_hub()
    await world.start_agent()
    await world.both_follow()


async def live(world: World) -> None:
    """A day of the fleet: orders, one of them for longer, a revision and another secret."""
    assert await world.ordered("restart", "web", "--detach") == "done"
    words = ("order", "sign", "--node", "w1", "--action", "restart", "--target", "service.web", "--expires", "2h")
    assert await world.ordered(*words, "--submit") == "done"
    assert await world.ordered("stop", "web", "--detach") == "done"
    assert await world.ordered("start", "web", "--detach") == "done"
    world.version += 1
    world.seal(world.version)
    world.does("apply", "--detach")
    await world.both_follow()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_put_back_shows_itself_and_no_order_runs_twice(case: Case) -> None:
    """X05, X14, X15: 20 cases, with an owned hub that sends every order again."""

    async def story(world: World) -> None:
        if case.first:
            world.copy("old")
        else:
            await live(world)
            await pause(world, "old")
        await live(world)
        newest = world.rig.head
        await world.stop_agent()
        world.stop_hub()
        world.copy("new")
        world.put_back("none" if case.lost else "old", case.parts)
        world.start_hub()
        world.withholds = case.withholds
        world.owned = not case.waits_s
        await world.start_agent()
        await world.w2_reports()
        if case.waits_s:
            await asyncio.sleep(case.waits_s)
            world.owned = True
        await check_told(case, world)
        await asyncio.sleep(TOLD_S)
        check_ran_once(world)
        if "ledger" in case.parts:
            world.version += 1
            check_fresh_command_line(world)
            world.version -= 1
        await remedy(case, world)
        assert world.rig.head.number >= newest.number
        assert await world.ordered("restart", "web", "--detach") == "done"
        check_ran_once(world)
        assert all(len(digests) == 1 for digests in world.accepted.values()), "a fork"

    play(story)


async def check_told(case: Case, world: World) -> None:
    """Within ten seconds, each by the part that can know it."""
    if case.node:
        await world.told("resync_needed")
    if "ledger" in case.parts:
        assert world.fails(7, "plan")["code"] == "rolled_back"
    elif "fleet.lock" in case.parts:
        assert world.fails(5, "plan")["code"] == "old_directory"
    elif "secrets" in case.parts:
        assert "service.web" in world.does("plan"), "the older secret is a change that an operator has to confirm"
    if "ledger" in case.parts and "state" not in case.parts:
        await world.told("revision_refused")


def check_ran_once(world: World) -> None:
    twice = {order for order, times in world.ran().items() if times > 1}
    assert twice <= world.lasting(), "only orders of grade apply that were signed with --expires"


def check_fresh_command_line(world: World) -> None:
    """X15: without fleet.lock and without memory, on the rolled-back ledger: nothing is committed."""
    kept, lock = world.home / "state", world.directory / "fleet.lock"
    held, text = kept.rename(world.home / "state-aside"), lock.read_bytes()
    lock.unlink()
    before = world.rig.head
    for words in (("plan",), ("apply", "--detach"), ("rollback", "1", "--detach"), ("undeploy", "web", "--detach")):
        assert world.fails(7, *words)["code"] == "rolled_back", words
    assert world.rig.head == before
    if kept.exists():
        rmtree(kept)
    held.rename(kept)
    lock.write_bytes(text)


async def remedy(case: Case, world: World) -> None:
    if "ledger" in case.parts:
        world.stop_hub()
        world.put_back("new", ("ledger",))
        world.start_hub()
    if "secrets" in case.parts:
        world.put_back("new", ("secrets",))
    if "fleet.lock" in case.parts:
        world.does("apply", "--adopt", "--detach")
    await world.both_follow()
    if case.node:
        assert await world.ordered("restart", "web", "--detach") == "resync_needed"
        assert await world.ordered("resync", "w1", "--detach") == "done"
        await world.until(lambda: "resync_needed" not in world.findings(), TOLD_S)
    assert "No changes" in world.does("plan")


# ---- one life after the other


def test_an_order_runs_only_in_the_life_it_names_unless_it_may_cross_a_restart() -> None:
    """X05: what is queued while the agent restarts needs a new signature; with --expires and grade apply it runs."""

    async def story(world: World) -> None:
        words = ("order", "sign", "--node", "w1", "--action", "restart", "--target", "service.web", "--submit")
        await world.stop_agent()
        world.does(*words)
        world.does(*words, "--expires", "1h")
        await world.start_agent()
        await world.until(lambda: all(world.view(_id(one)).result for one in world.sent))
        plain, lasting = (world.view(_id(one)) for one in world.sent)
        assert plain.result is not None and (plain.state, plain.result.code) == ("refused", "other_life")
        assert lasting.state == "done" and not lasting.sign_again and plain.sign_again
        assert "holdfast order sign --node w1 --action restart" in plain.result.remedy
        assert "sign again" in world.does("order", "list")
        assert "resync_needed" not in world.findings()

    play(story)


def test_an_order_of_a_higher_grade_never_crosses_a_restart() -> None:
    async def story(world: World) -> None:
        await world.stop_agent()
        words = ("--action", "purge", "--target", "data.old", "--expires", "7d", "--submit")
        assert "not after a restart" in world.does("order", "sign", "--node", "w1", *words)
        await world.start_agent()
        await world.until(lambda: world.view(_id(world.sent[0])).result is not None)
        result = world.view(_id(world.sent[0])).result
        assert result is not None and (result.outcome, result.code) == ("refused", "other_life")

    play(story)


def test_a_hub_that_replays_an_old_pulse_gets_an_order_that_does_not_run() -> None:
    """The command line that has seen a newer pulse names that one; a fresh one signs for a life that is over."""

    async def story(world: World) -> None:
        old = next(view for view in world.rig.desk.nodes().nodes if view.name == "w1")
        assert await world.ordered("restart", "web", "--detach") == "done"
        await world.stop_agent()
        await world.start_agent()
        await world.until(lambda: world.machine.life != "" and _life(world) == world.machine.life)
        assert await world.ordered("restart", "web", "--detach") == "done"
        world.box.wire.lie = lambda view: (
            replace(view, pulse=old.pulse, report=old.report) if view.name == "w1" else view
        )
        assert await world.ordered("restart", "web", "--detach") == "done"
        assert "earlier start of its agent" in world.box.err.getvalue()
        rmtree(world.home / "state" / "pulses")
        assert await world.ordered("restart", "web", "--detach") == "other_life"

    play(story)


def test_a_command_line_that_saw_more_says_that_the_node_was_put_back() -> None:
    """X05: the hub withholds from the node what it signed; the operator's own machine has seen it."""

    async def story(world: World) -> None:
        world.withholds = True
        world.copy("old", ("state",))
        assert await world.ordered("restart", "web", "--detach") == "done"
        assert await world.ordered("restart", "web", "--detach") == "done"
        await world.stop_agent()
        world.put_back("old", ("state",))
        await world.start_agent()
        await world.until(lambda: _life(world) == world.machine.life)
        found = world.fails(7, "restart", "web", "--detach")
        assert found["code"] == "resync_needed" and found["remedy"].startswith("holdfast resync w1")
        assert await world.ordered("resync", "w1", "--detach") == "done"
        assert await world.ordered("restart", "web", "--detach") == "done"

    play(story)


def test_a_start_that_the_state_does_not_know_shows_that_it_was_put_back() -> None:
    """X05: no order ran since the copy, so that only the life in the node's own pulse tells."""

    async def story(world: World) -> None:
        await pause(world, "old")
        await world.stop_agent()
        world.put_back("old", ("state",))
        await world.start_agent()
        await world.told("resync_needed")
        assert await world.ordered("restart", "web", "--detach") == "resync_needed"
        assert await world.ordered("resync", "w1", "--detach") == "done"
        assert await world.ordered("restart", "web", "--detach") == "done"

    play(story)


def test_no_order_can_be_signed_for_a_node_that_was_never_heard() -> None:
    async def story(world: World) -> None:
        world.box.wire.lie = lambda view: replace(view, pulse=None, report=b"")
        assert world.fails(6, "restart", "web", "--detach")["code"] == "not_heard"

    play(story)


def test_an_order_is_signed_without_a_hub_with_a_pulse_from_a_file() -> None:
    async def story(world: World) -> None:
        words = ("order", "sign", "--node", "w1", "--action", "restart", "--target", "service.web", "--counter", "1")
        assert world.fails(2, *words)["code"] == "not_heard"
        file = world.home / "w1.pulse"
        file.write_text(world.does("node", "show", "w1", "--pulse"))
        order = str(world.home / "restart.order")
        world.does(*words, "--pulse", str(file), "-o", order)
        assert await world.ordered("order", "submit", order) == "done"
        file.write_text("{}")
        assert world.fails(2, *words, "--pulse", str(file))["code"] == "usage"

    play(story)


# ---- orders of the release before


def old_format(world: World) -> SignedOrder:
    """As a command line of the release before signed it: no pulse, no life."""
    whole = decode_order(world.rig.order("w1", 1, "restart", target="service.web").order)
    content = canonical.encode(replace(whole, format=1, pulse=None))
    assert b"pulse" not in content and b"after_restart" not in content
    return SignedOrder(content, b"{}", (ALICE_SIGNER.sign(content, NAMESPACE),))


def test_queued_orders_of_the_release_before_are_listed_as_sign_again() -> None:
    async def story(world: World) -> None:
        signed = old_format(world)
        id = decode_order(signed.order).id
        record = OrderRecord(signed, "alice", world.rig.clock.now_s())
        await world.stop_agent()
        world.rig.store.commit(order_queue.writing(decode_order(signed.order), record))
        world.stop_hub()
        world.start_hub()  # a hub of this release finds it in its ledger
        assert (world.view(id).state, world.view(id).sign_again) == ("waiting", True)
        await world.start_agent()
        await world.until(lambda: world.view(id).result is not None)
        result = world.view(id).result
        assert result is not None and (result.outcome, result.code) == ("refused", "order_format_old")
        assert world.view(id).sign_again and "sign again" in world.does("order", "list")
        assert world.ran()[id] == 0 and "resync_needed" not in world.findings()
        with pytest.raises(NotPermitted, match="earlier release"):
            world.box.wire.submit(signed)

    play(story)


def _id(signed: SignedOrder) -> str:
    return decode_order(signed.order).id


def _life(world: World) -> str:
    view = next(view for view in world.rig.desk.nodes().nodes if view.name == "w1")
    return msgspec.json.decode(view.pulse.pulse, type=Pulse).life if view.pulse is not None else ""


def test_an_order_that_may_cross_a_restart_may_run_again_and_no_other() -> None:
    """docs/security.md says so: the only orders that a hub can run again, if it withholds the node's own pulses."""

    async def story(world: World) -> None:
        world.withholds = True
        world.copy("old", ("state",))
        words = ("order", "sign", "--node", "w1", "--action", "restart", "--target", "service.web", "--submit")
        assert await world.ordered(*words, "--expires", "2h") == "done"
        await world.stop_agent()
        world.put_back("old", ("state",))
        world.owned = True
        await world.start_agent()
        (lasting,) = world.lasting()
        await world.until(lambda: world.ran()[lasting] == 2)
        await asyncio.sleep(TOLD_S)
        assert world.ran() == {lasting: 2}

    play(story)


# ---- a lost agent.db


@pytest.mark.parametrize("anchored", [True, False], ids=["anchored", "identity of the release before"])
def test_a_node_that_lost_agent_db_comes_back_by_itself_at_any_revision(
    anchored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X14: also if its identity names a revision whose manifest is older than what a hub hands out otherwise."""
    for module in ("holdfast.hub.nodes.node_contents", "holdfast.agent.acceptance.catch_up"):
        monkeypatch.setattr(f"{module}.REVISIONS_BACK", 2)

    async def story(world: World) -> None:
        founded = (world.machine.state / "identity.json").read_bytes()
        belongings = Belongings(world.rig.hub.links, world.rig.hub.blob)

        def blob(digest: str) -> bytes | None:
            applied = world.rig.hub.applied()
            assert applied is not None
            return world.rig.hub.blob(digest) if belongings.has(applied, "w1", digest) else None

        world.machine.link.blobs = blob
        for _ in range(5):
            world.version += 1
            world.rig.commit(world.fleet())
            await world.both_follow()
        await world.stop_agent()
        (world.machine.state / "agent.db").unlink()
        if anchored:
            kept = decode((world.machine.state / "identity.json").read_bytes(), "identity.json")
            assert kept.head == kept.accepted == world.rig.head
        else:
            (world.machine.state / "identity.json").write_bytes(founded)
            assert decode(founded, "identity.json").head.number <= 2
        world.version += 1
        world.rig.commit(world.fleet())
        await world.start_agent()
        await world.both_follow()
        assert world.findings() <= {"resync_needed"}
        assert not world.agent.accepting.parked

    play(story)


def test_a_node_whose_agent_db_was_put_back_does_not_follow_a_fork_of_what_it_accepted() -> None:
    """0 forks: hub and agent.db are put back together, and operators sign other revisions on top of that ledger."""

    async def story(world: World) -> None:
        await pause(world, "old")
        world.version += 1
        world.rig.commit(world.fleet())
        await world.both_follow()
        await world.stop_agent()
        world.stop_hub()
        world.put_back("old", ("ledger", "agent.db"))
        world.start_hub()
        await world.start_agent()
        await world.told("revision_refused")
        before = world.agent.accepting.seen
        for _ in range(3):
            world.version += 1
            world.rig.commit(world.fleet())
        await asyncio.sleep(TOLD_S)
        assert world.agent.accepting.seen == before and "revision_refused" in world.findings()

    play(story)
