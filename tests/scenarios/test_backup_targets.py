"""Backups on several targets, over memory in virtual time: what each gets, what a lost one costs, what is read."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.backup_target import troubles
from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.agent.backups.targets.spread import OTHER_S
from holdfast.model import backup_key
from holdfast.model.backup_key import parse
from holdfast.model.fleet import Fleet, Storage, StoragePolicy
from holdfast.ports.backup_target import Prunable, TargetState
from holdfast.trust import receipts
from tests.fleets.agents import until
from tests.fleets.deploying import Scene
from tests.fleets.desks import key_of
from tests.scenarios.test_backups import (
    HOUR_S,
    fleet,
    keeper_of,
    made,
    ordered,
    play_backups,
    state,
    stored,
    target,
    write,
)

NAS = Storage("nas", "local-dir", "nas:/export", location="/mnt/nas")
AWAY = troubles.missing("nas", "it was unplugged")


def with_targets(*targets: Storage, **changed: Any) -> Fleet:
    return replace(fleet(**changed), storage={one.name: one for one in targets})


def other(one: Scene, name: str = "nas") -> MemoryTarget:
    return one.machine.targets.made[name]


async def level(one: Scene, name: str = "nas", at_most_s: float = HOUR_S) -> None:
    """It has what the hub has."""
    await until(one.rig, lambda: other(one, name).objects == target(one), at_most_s)


def copies(one: Scene) -> dict[str, tuple[int, ...]]:
    return {each.target: each.held for each in state(one).copies}


def test_every_backup_goes_to_all_targets_of_its_node() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        write(one, b"second")
        await ordered(one, "backup")
        await made(one, 2)
        await level(one)
        await until(one.rig, lambda: copies(one) == {"hub": (2, 1), "nas": (2, 1)}, 60.0)

    play_backups(story, with_targets(NAS))


def test_a_target_that_is_missing_is_noticed_within_five_seconds_and_gets_what_it_lacks_when_it_is_back_h49() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        other(one).trouble = AWAY
        await asyncio.sleep(5.0)
        assert "target_gone" in one.findings()
        (told,) = keeper_of(one).section().targets
        assert (told.name, told.state) == ("nas", "missing") and "unplugged" in told.reason
        before = dict(other(one).objects)
        write(one, b"second")
        await ordered(one, "backup")
        await made(one, 2)
        assert state(one).last is not None and not state(one).trouble, "the hub decides"
        assert other(one).objects == before
        other(one).trouble = None
        await level(one, at_most_s=30.0)
        assert "target_gone" not in one.findings()

    play_backups(story, with_targets(NAS))


def test_a_receipt_is_stored_where_everything_that_it_names_is_and_nowhere_else() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        nas = other(one)
        put = nas.put

        async def refusing(key: str, content: bytes) -> None:
            if parse(key).kind == "packs":
                raise troubles.failing("nas", "bad sector")
            await put(key, content)

        nas.put = refusing  # type: ignore[method-assign]
        write(one, b"second")
        await ordered(one, "backup")
        await made(one, 2)
        await asyncio.sleep(300.0)
        assert [parse(key).sequence for key in nas.objects if parse(key).kind == "receipts"] == [1]
        assert "backup_not_copied" in one.findings()
        nas.put = put  # type: ignore[method-assign]
        await level(one)
        await until(one.rig, lambda: "backup_not_copied" not in one.findings(), 120.0)

    play_backups(story, with_targets(NAS))


def test_a_target_that_takes_for_ever_delays_a_backup_by_half_a_minute_once() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        nas, tried = other(one), list[str]()
        put = nas.put

        async def hanging(key: str, content: bytes) -> None:
            tried.append(key)
            await asyncio.sleep(1000.0)

        nas.put = hanging  # type: ignore[method-assign]
        one.machine.storage.contents["web"].update({f"book/{number}": b"%d" % number for number in range(20)})
        await ordered(one, "backup")
        before_s = one.rig.loop.time()
        await made(one, 2, 300.0)
        assert one.rig.loop.time() - before_s < 2 * OTHER_S and len(tried) <= 2
        nas.put = put  # type: ignore[method-assign]
        await level(one, at_most_s=2 * HOUR_S)

    play_backups(story, with_targets(NAS))


def test_what_the_hub_lost_is_copied_back_from_another_target() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        before = dict(target(one))
        target(one).clear()
        await until(one.rig, lambda: target(one) == before, 2 * HOUR_S)

    play_backups(story, with_targets(NAS))


def test_the_declared_primary_target_decides_whether_a_backup_is_made() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        assert state(one).last is not None and state(one).last.target == "nas"  # type: ignore[union-attr]
        hub = one.machine.backups.target
        hub.trouble = troubles.missing("at the hub", "it is down")  # type: ignore[attr-defined]
        write(one, b"second")
        await ordered(one, "backup")
        await until(one.rig, lambda: state(one).last is not None and state(one).last.sequence == 2)  # type: ignore[union-attr]
        assert len(stored(one)) == 1, "the hub does not have it yet"
        hub.trouble = None  # type: ignore[attr-defined]
        other(one).trouble = AWAY
        write(one, b"third")
        await ordered(one, "backup")
        await until(one.rig, lambda: state(one).failures == 1)
        other(one).trouble = None
        await level(one, at_most_s=2 * HOUR_S)

    play_backups(story, with_targets(replace(NAS, role="primary")))


def test_a_restore_reads_what_one_target_has_damaged_or_lost_from_the_next() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        (first,) = stored(one)
        for number, key in enumerate(sorted(key for key in target(one) if parse(key).kind != "receipts")):
            if number % 2:
                del target(one)[key]
            else:
                target(one)[key] = b"rotten"
        write(one, b"second")
        await ordered(one, "restore", "data.web", backup=first.digest)
        assert one.machine.storage.contents["web"]["book/page"] == b"first"

    play_backups(story, with_targets(NAS))


def test_backups_that_another_node_signed_are_not_shown_as_copies_of_this_ones() -> None:
    """Both have the same numbers."""

    async def story(one: Scene) -> None:
        (first,) = stored(one)
        content = receipts.sign(key_of("w2"), replace(first.receipt, node="w2", sequence=50))
        key = backup_key.receipt(one.machine.membership.fleet, "web", 50, content)
        for objects in (target(one), other(one).objects):
            objects[key] = content
        await ordered(one, "backup")
        await until(one.rig, lambda: copies(one) == {"hub": (2, 1), "nas": (2, 1)}, 600.0)

    play_backups(story, with_targets(NAS))


def test_each_target_keeps_as_many_backups_as_its_policy_says() -> None:
    def numbers(objects: dict[str, bytes]) -> list[int]:
        return [parse(key).sequence for key in sorted(objects) if parse(key).kind == "receipts"]

    async def story(one: Scene) -> None:
        for number in range(2, 7):
            write(one, b"%d" % number)
            await ordered(one, "backup")
            await until(one.rig, lambda: stored(one)[-1].receipt.sequence == number, 600.0)  # noqa: B023
            await asyncio.sleep(60.0)
        await until(one.rig, lambda: numbers(other(one).objects) == [1, 2, 5, 6], 600.0)
        assert numbers(target(one)) == [1, 4, 5, 6], "and the first one, which was read back there"
        await until(one.rig, lambda: copies(one) == {"hub": (6, 5, 4, 1), "nas": (6, 5, 2, 1)}, 60.0)
        keys = [parse(key) for key in other(one).objects if parse(key).kind == "receipts"]
        kept = [
            receipts.named(other(one).objects[key.text], key.digest, one.machine.membership.fleet, "web")
            for key in keys
        ]
        needed = {pack.digest for found in kept for pack in found.receipt.packs}
        assert {parse(key).digest for key in other(one).objects if parse(key).kind == "packs"} == needed

    play_backups(story, with_targets(replace(NAS, policy=StoragePolicy(retain=2)), retain=3))


def test_a_target_that_the_revision_detaches_is_not_written_any_more_and_keeps_what_it_has() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        before = dict(other(one).objects)
        one.apply(with_targets(replace(NAS, state="disconnected")))
        await one.settled()
        write(one, b"second")
        await ordered(one, "backup")
        await made(one, 2)
        await asyncio.sleep(60.0)
        assert other(one).objects == before and not state(one).copies
        assert keeper_of(one).section().targets == ()

    play_backups(story, with_targets(NAS))


def test_a_copy_on_the_machine_of_the_data_is_said_to_be_one() -> None:
    async def story(one: Scene) -> None:
        await level(one, "box")
        await until(one.rig, lambda: len(copies(one)) == 2, 60.0)
        assert {each.target: each.same_machine for each in state(one).copies} == {"hub": False, "box": True}

    play_backups(story, with_targets(Storage("box", "local-dir", "box-1", location="/srv/box")))


def test_no_backup_is_copied_that_this_node_did_not_sign() -> None:
    """A hub may show any receipt: another node's, one that it made up, or one that it changed."""

    async def story(one: Scene) -> None:
        await level(one)
        (mine,) = stored(one)
        fleet_id = one.machine.membership.fleet
        forged = [receipts.sign(key_of("w2"), replace(mine.receipt, sequence=8, node=node)) for node in ("w1", "w2")]
        for content in forged:
            target(one)[backup_key.receipt(fleet_id, "web", 8, content)] = content
        write(one, b"second")
        await ordered(one, "backup")
        await made_mine(one, 2)
        await until(one.rig, lambda: copies(one).get("nas", ()) == (2, 1), 2 * HOUR_S)
        await asyncio.sleep(2 * HOUR_S)
        assert not {parse(key).sequence for key in other(one).objects} & {8}
        assert "backup_not_copied" not in one.findings()

    async def made_mine(one: Scene, sequence: int) -> None:
        await until(one.rig, lambda: state(one).last is not None and state(one).last.sequence == sequence, 600.0)  # type: ignore[union-attr]

    play_backups(story, with_targets(NAS, interval="9h"))


@pytest.mark.parametrize("cut", range(1, 7))
def test_an_agent_that_is_killed_while_it_prunes_leaves_no_receipt_without_its_objects_and_goes_on(cut: int) -> None:
    """At each deletion, before and after it (I-28)."""

    def whole(objects: dict[str, bytes], one: Scene) -> bool:
        keys = {"w1": one.machine.key.line}
        found = [
            receipts.verify(content, one.machine.membership.fleet, "web", keys).receipt
            for key, content in objects.items()
            if parse(key).kind == "receipts"
        ]
        digests = {parse(key).digest for key in objects}
        return all({each.manifest.digest, *(pack.digest for pack in each.packs)} <= digests for each in found)

    def sequences(objects: dict[str, bytes]) -> list[int]:
        return [parse(key).sequence for key in sorted(objects) if parse(key).kind == "receipts"]

    async def story(one: Scene) -> None:
        await asyncio.sleep(60.0)  # the first one is read back
        nas, deaths = other(one), list[int]()
        delete = nas.delete

        async def dying(key: str, proof: Prunable) -> None:
            deaths.append(1)
            if len(deaths) == cut and cut % 2:
                await asyncio.sleep(10_000.0)  # killed before it
            await delete(key, proof)
            if len(deaths) == cut:
                await asyncio.sleep(10_000.0)  # killed after it

        for number in range(2, 6):
            nas.delete = dying if number == 5 else delete  # type: ignore[method-assign]
            write(one, b"%d" % number)
            await ordered(one, "backup")
            await until(one.rig, lambda: stored(one)[-1].receipt.sequence == number, 600.0)  # noqa: B023
            await asyncio.sleep(60.0)
            assert whole(nas.objects, one) and whole(target(one), one)
        await one.kill()
        nas.delete = delete  # type: ignore[method-assign]
        one.start()
        await until(one.rig, lambda: 5 in (found := sequences(nas.objects)) and len(found) <= 3, 2 * HOUR_S)
        assert whole(nas.objects, one) and whole(target(one), one)

    play_backups(story, with_targets(replace(NAS, policy=StoragePolicy(retain=1)), retain=9))


@pytest.mark.parametrize("where", ["hub", "nas"])
def test_nothing_is_pruned_and_nothing_lost_where_a_target_is_full_r05(where: str) -> None:
    async def story(one: Scene) -> None:
        await level(one)
        full = one.machine.backups.target if where == "hub" else other(one)
        assert isinstance(full, MemoryTarget)
        before = dict(full.objects)
        full.bytes_max = sum(map(len, before.values())) + 10
        write(one, b"second" * 100)
        await ordered(one, "backup")
        if where == "nas":
            await made(one, 2, 300.0)
            await until(one.rig, lambda: "backup_not_copied" in one.findings(), 300.0)
        else:
            await until(one.rig, lambda: state(one).failures >= 1, 300.0)
            assert "is full" in one.findings()["backup_failed"]
        await asyncio.sleep(HOUR_S / 6)
        assert before.items() <= full.objects.items() and len(full.objects) <= len(before) + 1, "at most a key more"
        full.bytes_max = 1 << 30
        await until(one.rig, lambda: len(stored(one)) >= 2, HOUR_S / 2)
        await level(one, at_most_s=HOUR_S / 2)

    play_backups(story, with_targets(NAS, interval="20m"))  # each look at a target costs time of the test, too


@pytest.mark.parametrize("where", ["hub", "nas"])
def test_a_full_target_gets_room_when_a_revision_keeps_fewer_backups_there(where: str) -> None:
    """As the remedy says."""

    def declared(retain: int) -> Fleet:
        policy = StoragePolicy(retain=retain if where == "nas" else 9)
        return with_targets(replace(NAS, policy=policy), retain=retain if where == "hub" else 9)

    async def story(one: Scene) -> None:
        for number in range(2, 5):
            write(one, b"%d" % number)
            await ordered(one, "backup")
            await until(one.rig, lambda: stored(one)[-1].receipt.sequence == number, 600.0)  # noqa: B023
        await level(one)
        full = one.machine.backups.target if where == "hub" else other(one)
        assert isinstance(full, MemoryTarget)
        before, look = len(full.objects), full.look

        async def looked() -> TargetState:
            found = await look()
            return replace(found, state="full" if found.free_bytes == 0 else "attached")

        full.look = looked  # type: ignore[method-assign]
        full.bytes_max = sum(map(len, full.objects.values()))
        await asyncio.sleep(60.0)
        one.apply(declared(1))
        await until(one.rig, lambda: len(full.objects) < before and len(whole_ones(full)) < 4, 300.0)

    play_backups(story, declared(9))


def whole_ones(target_: MemoryTarget) -> list[str]:
    return [key for key in target_.objects if parse(key).kind == "receipts"]


def test_a_target_that_is_slow_to_read_delays_no_backup() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        nas, asked = other(one), list[str]()

        async def slow(key: str) -> bytes | None:
            asked.append(key)
            await asyncio.sleep(1000.0)
            return None

        nas.get = slow  # type: ignore[method-assign]
        await until(one.rig, lambda: bool(asked), 300.0)
        begun_s = one.rig.loop.time()
        await ordered(one, "backup")
        await made(one, 2, 300.0)
        assert one.rig.loop.time() - begun_s < 60.0

    play_backups(story, with_targets(NAS))


def test_a_target_that_fails_to_be_read_is_asked_last_from_then_on() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        (first,) = stored(one)
        nas, asked = other(one), list[str]()

        async def failing(key: str) -> bytes | None:
            asked.append(key)
            raise troubles.failing("nas", "it reads again and again")

        nas.get = failing  # type: ignore[method-assign]
        await ordered(one, "restore", "data.web", backup=first.digest)
        assert len(asked) == 1, "the others answer all that follows"

    play_backups(story, with_targets(replace(NAS, speed="fast")))


def test_a_receipt_comes_by_copying_only_which_compares_what_is_there() -> None:
    async def story(one: Scene) -> None:
        await level(one)
        nas = other(one)
        listing = nas.list

        async def unlisted(prefix: str) -> Any:
            raise troubles.failing("nas", "it lists nothing")

        nas.list = unlisted  # type: ignore[method-assign]
        write(one, b"second")
        await ordered(one, "backup")
        await made(one, 2, 300.0)
        await asyncio.sleep(30.0)
        packs = {parse(key).digest for key in nas.objects if parse(key).kind == "packs"}
        assert {pack.digest for pack in stored(one)[-1].receipt.packs} <= packs, "it takes objects"
        assert [parse(key).sequence for key in nas.objects if parse(key).kind == "receipts"] == [1]
        nas.list = listing  # type: ignore[method-assign]
        await level(one, at_most_s=2 * HOUR_S)

    play_backups(story, with_targets(NAS))


def test_a_new_target_gets_the_backups_that_its_policy_keeps_and_no_others() -> None:
    async def story(one: Scene) -> None:
        for number in (2, 3, 4):
            await ordered(one, "backup")
            await made(one, number, 300.0)
        nas = one.machine.targets.made["nas"] = MemoryTarget("nas:/export")
        taken, put = list[int](), nas.put

        async def noting(key: str, content: bytes) -> None:
            taken.append(parse(key).sequence)
            await put(key, content)

        nas.put = noting  # type: ignore[method-assign]
        one.apply(with_targets(replace(NAS, policy=StoragePolicy(retain=1))))
        await until(one.rig, lambda: copies(one).get("nas") == (4, 1), 300.0)
        assert set(taken) == {-1, 1, 4}, "the newest by order, and the newest of the schedule"

    play_backups(story, fleet())
