"""Orders at the hub: kept until fetched, delivered under a lease, results kept, late ones ignored (C-01)."""

import asyncio

import pytest
from msgspec.structs import replace

from holdfast.errors import Conflict, HoldfastError, Invalid, Limited
from holdfast.hub.orders import queue as order_queue
from holdfast.model.checkin import ORDERS_MAX, RESULTS_MAX
from holdfast.model.order import OrderResult, decode_order
from tests.fleets.desks import OPERATOR, Puppet, Rig
from tests.fleets.virtual import VirtualLoop, run


def test_an_order_wakes_its_node_and_its_result_is_kept() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await w1.follows()
        held = asyncio.create_task(w1.says(wait_s=50.0))
        await asyncio.sleep(3)
        signed = rig.order("w1")
        id = await rig.desk.submit(OPERATOR, signed, "x")
        answer = await held
        assert loop.time() == 3.0
        (delivered,) = answer.orders
        assert delivered.signed == signed and delivered.attempt == 1
        assert rig.desk.orders("w1", 10).orders[0].state == "delivered"
        answer = await w1.says(results=(OrderResult(id, 1, "done", message="pong"),), wait_s=50.0)
        assert answer.results_taken == (id,) and loop.time() == 3.0
        rig = rig.restarted()
        (view,) = rig.desk.orders(None, 10).orders
        assert (view.state, view.by, view.action) == ("done", "alice", "ping")
        assert view.result is not None and view.result.message == "pong"

    run(main)


def test_an_order_outlives_the_hub_and_is_delivered_by_the_next_one() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await rig.desk.submit(OPERATOR, rig.order("w1"), "x")
        w1.rig = rig.restarted()
        assert len((await w1.says()).orders) == 1

    run(main)


def test_without_a_result_it_is_delivered_again_when_the_lease_ran_out_and_late_results_are_ignored() -> None:
    """Leases with attempt numbers; a result of an older attempt is audited and not taken."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await w1.follows()
        id = await rig.desk.submit(OPERATOR, rig.order("w1"), "x")
        assert [d.attempt for d in (await w1.says()).orders] == [1]
        assert not (await w1.says()).orders, "under its lease nobody gets it twice"
        await asyncio.sleep(order_queue.LEASE_S)
        assert [d.attempt for d in (await w1.says()).orders] == [2]
        before = len(rig.audited())
        assert (await w1.says(results=(OrderResult(id, 1, "failed"),))).results_taken == ()
        assert rig.desk.orders("w1", 10).orders[0].state == "delivered"
        assert "attempt 1" in rig.audited()[before].event.detail
        assert (await w1.says(results=(OrderResult(id, 2, "done"),))).results_taken == (id,)
        assert (await w1.says(results=(OrderResult(id, 2, "failed"),))).results_taken == (id,), (
            "sent again: acknowledged"
        )
        assert rig.desk.orders("w1", 10).orders[0].state == "done", "the first result stands"

    run(main)


def test_results_of_orders_nobody_knows_are_acknowledged_and_audited() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        w1, w2 = await rig.joined("w1", "w2")
        other = await rig.desk.submit(OPERATOR, rig.order("w2"), "x")
        strange = ("f" * 32, "../../order", other, "")
        before = len(rig.audited())
        answer = await w1.says(results=tuple(OrderResult(id, 1, "done") for id in strange))
        assert answer.results_taken == strange
        assert len(rig.audited()) == before + len(strange)
        assert rig.desk.orders("w2", 10).orders[0].state == "waiting", "a node cannot speak for another one's order"
        assert len((await w2.says()).orders) == 1

    run(main)


def test_an_expired_order_is_not_delivered_and_the_word_of_a_late_node_still_counts() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        running = asyncio.create_task(rig.desk.run())
        waiting = await rig.desk.submit(OPERATOR, rig.order("w1", 1, expires_s=30), "x")
        (delivered,) = (await w1.says()).orders
        await asyncio.sleep(1)
        never = await rig.desk.submit(OPERATOR, rig.order("w1", 2, expires_s=30), "x")
        await asyncio.sleep(121)
        assert not (await w1.says()).orders
        states = {view.id: view.state for view in rig.desk.orders("w1", 10).orders}
        assert states == {waiting: "expired", never: "expired"}
        answer = await w1.says(results=(OrderResult(waiting, delivered.attempt, "done"),))
        assert answer.results_taken == (waiting,)
        states = {view.id: view.state for view in rig.desk.orders("w1", 10).orders}
        assert states == {waiting: "done", never: "expired"}
        running.cancel()

    run(main)


def test_what_the_hub_takes_is_checked_and_bounded() -> None:
    """The hub verifies as a courtesy: what no node would run is refused where the operator still sees it."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        good = rig.order("w1")
        refused = {
            "unsigned": replace(good, signatures=()),
            "other arguments": replace(good, arguments=b'{"a":"b"}'),
            "garbled": replace(good, order=good.order[:-1]),
            "unknown node": rig.order("w9"),
        }
        for why, signed in refused.items():
            with pytest.raises(HoldfastError) as trouble:
                await rig.desk.submit(OPERATOR, signed, "x")
            assert trouble.value.remedy, why
            assert rig.audited()[-1].event.result == "denied", why
        with pytest.raises(Invalid):
            await rig.desk.submit(OPERATOR, refused["unknown node"], "x")
        assert await rig.desk.submit(OPERATOR, good, "x") == await rig.desk.submit(OPERATOR, good, "x")
        order = replace(decode_order(rig.order("w1", 2).order), id=decode_order(good.order).id)
        from holdfast.model import canonical
        from holdfast.model.order import NAMESPACE
        from tests.fleets.build import ALICE_SIGNER

        content = canonical.encode(order)
        twin = replace(good, order=content, signatures=(ALICE_SIGNER.sign(content, NAMESPACE),))
        with pytest.raises(Conflict):
            await rig.desk.submit(OPERATOR, twin, "x")
        for counter in range(2, order_queue.QUEUE_MAX + 1):
            await rig.desk.submit(OPERATOR, rig.order("w1", counter), "x")
        with pytest.raises(Limited):
            await rig.desk.submit(OPERATOR, rig.order("w1", 9_999), "x")
        assert len((await w1.says()).orders) == ORDERS_MAX

    run(main)


def test_finished_orders_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_queue, "KEPT_MAX", 3)

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        for counter in range(1, 7):
            id = await rig.desk.submit(OPERATOR, rig.order("w1", counter), "x")
            await w1.says()
            await w1.says(results=(OrderResult(id, 1, "done"),))
            await asyncio.sleep(1)
        assert len(rig.desk.orders("w1", 100).orders) == 3

    run(main)


def test_orders_of_streams_are_forgotten_first_n39(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `logs` is an order: a hundred of them must not push out the result of a purge."""
    monkeypatch.setattr(order_queue, "KEPT_MAX", 3)

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        for counter, action in enumerate(("ping", "logs", "ping", "logs", "logs", "logs"), 1):
            signed = rig.order("w1", counter, action=action, target="service.web" if action == "logs" else "")
            id = await rig.desk.submit(OPERATOR, signed, "x")
            await w1.says()
            await w1.says(results=(OrderResult(id, 1, "done"),))
            await asyncio.sleep(1)
        assert [view.action for view in rig.desk.orders("w1", 100).orders] == ["logs", "ping", "ping"]

    run(main)


def test_what_went_to_a_dead_line_is_handed_out_again_as_soon_as_the_node_is_idle() -> None:
    """A power cut without a goodbye: the hub answered nobody. An idle node without the result never had the order."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        await w1.follows()
        await rig.desk.submit(OPERATOR, rig.order("w1"), "x")
        assert [d.attempt for d in (await w1.says(wait_s=10.0)).orders] == [1]
        assert not (await w1.says(wait_s=1.0)).orders, "it may still be on its way"
        await asyncio.sleep(order_queue.UNHEARD_S)
        assert not (await w1.says()).orders, "a node that is busy may have it in hand"
        began_s = loop.time()
        assert [d.attempt for d in (await w1.says(wait_s=10.0)).orders] == [2] and loop.time() == began_s

    run(main)


def test_a_node_cannot_flood_the_audit_log_with_results() -> None:
    """D9, S05: refused before any of them is looked at; what is within the bound is folded."""

    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        (w1,) = await rig.joined("w1")
        before = len(rig.audited())
        with pytest.raises(Invalid):
            await w1.says(results=tuple(OrderResult(f"{n:032d}", 1, "done") for n in range(RESULTS_MAX + 1)))
        assert len(rig.audited()) == before
        for batch in range(20):
            some = tuple(OrderResult(f"{batch:016d}{n:016d}", 1, "done") for n in range(RESULTS_MAX))
            await w1.says(results=some)
        assert len(rig.audited()) - before <= 100

    run(main)


def test_an_address_is_bounded_when_joining_too() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop)
        for address in ("x" * 10_000, "100.64.0.1\nforged log line"):
            with pytest.raises(Invalid):
                await Puppet(rig, "w1").join(address=address)
        assert (await Puppet(rig, "w1").join(address="100.64.0.1")).accepted

    run(main)
