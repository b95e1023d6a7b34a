"""Backups of a node over memory, in virtual time: when they are made, what they hold, what stays, what comes back."""

import asyncio
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.archive.memory import MemoryArchiver
from holdfast.adapters.own_files.memory import MemoryOwnFiles
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.runtime.memory import Directory, Image
from holdfast.adapters.sealing.identities import MemoryIdentities
from holdfast.adapters.sealing.memory import MemoryOpener
from holdfast.agent.backups.rounds import VERIFY_S
from holdfast.errors import Failed, Unreachable
from holdfast.model import archive_key
from holdfast.model.archive import Purpose
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.backup_key import FLEET_DIGITS, parse
from holdfast.model.backup_key import digest as digest_of
from holdfast.model.backup_report import BackupState
from holdfast.model.fleet import Backups, Fleet, Service, Snapshot, Timeouts, Volume
from holdfast.ports.sealing import CannotOpen
from holdfast.trust import receipts
from tests.fleets.agents import until
from tests.fleets.backing_up import StorageArchiver
from tests.fleets.build import operator_signer, small_fleet
from tests.fleets.deploying import Scene, Story, play, service
from tests.fleets.desks import OPERATOR, key_of
from tests.fleets.schedule_scene import refusing

HOUR_S, DAY_S = 3600.0, 24 * 3600.0
INTERVAL, INTERVAL_S = "3h", 3 * HOUR_S  # days of virtual time take half a minute
ANN, BOB, CAT = (MemoryIdentities(SeededRandom(name)).fresh().recipient for name in ("ann", "bob", "cat"))
VOLUMES = (Volume("book", "/book", "backup"), Volume("cache", "/cache", "none"))


def web(version: int = 1, **changed: Any) -> Service:
    return replace(service(version, volumes=VOLUMES), **changed)


def fleet(interval: str = INTERVAL, retain: int = 7, timeout: str = "10m", **changed: Any) -> Fleet:
    made = small_fleet({"web": web(**changed)}, nodes=("w1",))
    return replace(made, backups=Backups(interval=interval, retain=retain), timeouts=Timeouts(snapshot=timeout))


def play_backups(story: Story, declared: Fleet | None = None) -> None:
    """The service has data when the story begins, and its first backup is made."""

    async def whole(one: Scene) -> None:
        await one.settled()
        write(one, b"first")
        await made(one, 1)
        await story(one)

    play(declared or fleet(), whole)


def write(one: Scene, text: bytes) -> None:
    one.machine.storage.contents["web"].update({"book/page": text, "cache/x": b"of no value"})


def keeper_of(one: Scene) -> Any:
    return next(keeper for keeper in one.machine.built.keepers.every if keeper.name == "backups")


def state(one: Scene) -> BackupState:
    keeper = keeper_of(one)
    (found,) = keeper.section().backups
    assert isinstance(found, BackupState)
    return found


def stored(one: Scene) -> list[VerifiedReceipt]:
    """As any reader of the target verifies them; oldest first."""
    fleet_id, keys = one.machine.membership.fleet, {"w1": one.machine.key.line}
    found = [
        receipts.verify(content, fleet_id, "web", keys)
        for key, content in target(one).items()
        if parse(key).kind == "receipts"
    ]
    return sorted(found, key=lambda receipt: receipt.receipt.sequence)


def target(one: Scene) -> dict[str, bytes]:
    return one.machine.backups.target.objects  # type: ignore[attr-defined,no-any-return]


def archiver(one: Scene) -> StorageArchiver:
    found = one.machine.backups.archiver
    assert isinstance(found, StorageArchiver)
    return found


async def made(one: Scene, count: int, at_most_s: float = 10 * DAY_S) -> list[VerifiedReceipt]:
    await until(one.rig, lambda: len(stored(one)) >= count, at_most_s)
    return stored(one)


async def ordered(one: Scene, action: str, target_: str = "service.web", **given: str) -> str:
    counter = one.machine.journal.highest_counter() + 1
    id = await one.rig.desk.submit(OPERATOR, one.rig.order("w1", counter, action, 900, target_, **given))
    await until(one.rig, lambda: one.machine.journal.result_of(id) is not None)
    found = one.machine.journal.result_of(id)
    assert found is not None and found.outcome == "done", found
    return id


def remembering(one: Scene) -> MemoryArchiver:
    """From now on the archiver knows what it has shipped, and ships it once."""
    made = MemoryArchiver(SeededRandom("archiver"), one.machine.storage.contents)
    keeper_of(one)._rounds._runs._making._archiver = made
    return made


def lacking(one: Scene) -> set[str]:
    """What receipts name and the target does not have."""
    named = {each.digest for found in stored(one) for each in (found.receipt.manifest, *found.receipt.packs)}
    return named - {parse(key).digest for key in target(one)}


# ---- of the node itself


def test_a_node_with_certificates_of_routes_backs_itself_up_beside_its_services_m34() -> None:
    """By the same schedule, key, receipts, retention and orders; under a name that no other node and no service has."""

    def own(one: Scene) -> list[VerifiedReceipt]:
        fleet_id, keys = one.machine.membership.fleet, {"w1": one.machine.key.line}
        found = [
            receipts.verify(content, fleet_id, "node.w1", keys)
            for key, content in target(one).items()
            if parse(key).service == "node.w1" and parse(key).kind == "receipts"
        ]
        return sorted(found, key=lambda receipt: receipt.receipt.sequence)

    async def story(one: Scene) -> None:
        await one.settled()
        assert {parse(key).service for key in target(one)} <= {"web"}
        files = one.machine.backups.own
        assert isinstance(files, MemoryOwnFiles)
        one.machine.storage.contents["own"] = {"routes/shop": b"certificate"}
        files.top = "/memory/own"  # it got one
        await until(one.rig, lambda: len(own(one)) == 1, 60.0)
        assert own(one)[0].receipt.method == "node" and own(one)[0].receipt.size_bytes == len(b"certificate")
        assert {found.service for found in keeper_of(one).section().backups} == {"node.w1", "web"}
        for number in range(2, 6):
            one.machine.storage.contents["own"]["routes/shop"] = b"%d" % number
            await ordered(one, "backup", "node.w1")
            await until(one.rig, lambda: own(one)[-1].receipt.sequence == number, 60.0)  # noqa: B023
            await asyncio.sleep(20.0)
        kept = [found.receipt.sequence for found in own(one)]
        assert kept == [1, 4, 5], "by schedule one, which was also read back, and by order two"
        keys = [key for key in target(one) if parse(key).service == "node.w1" and parse(key).kind == "keys"]
        opened = MemoryOpener(one.machine.key.line).open(target(one)[keys[0]])
        assert archive_key.read(opened, Purpose(one.machine.membership.fleet, "node.w1", 1))
        files.top = ""
        await asyncio.sleep(2 * INTERVAL_S + HOUR_S)
        assert len(own(one)) == 3 and "backup_stale" not in one.findings(), "it serves no route any more"

    play(fleet(retain=2), story)


# ---- when


def test_a_service_is_backed_up_at_the_interval_of_the_fleet() -> None:
    async def story(one: Scene) -> None:
        (first,) = stored(one)
        await asyncio.sleep(5 * HOUR_S)
        found = [receipt.receipt for receipt in stored(one)]
        assert [receipt.sequence for receipt in found] == list(range(1, len(found) + 1)) and len(found) in (5, 6, 7)
        slots = [(receipt.made_s - found[1].made_s) / HOUR_S for receipt in found[1:]]
        assert [round(slot) for slot in slots] == list(range(len(slots))), "each hour once, at the same minute"
        assert all(receipt.cause == "schedule" for receipt in found)
        assert [receipt.previous for receipt in found] == ["", *(one.digest for one in stored(one)[:-1])]
        assert state(one).next_s - found[-1].made_s <= HOUR_S + 1 and first.receipt.cause == "schedule"

    play_backups(story, fleet("1h"))


def test_a_service_is_backed_up_at_the_minutes_of_a_cron_expression() -> None:
    """In its time zone, soon after them. An agent that was away begins at its start. Stale: twice the longest pause."""
    cron = Backups(cron="30 * * * *", timezone="Asia/Kolkata")  # 5 h 30 min ahead: whole hours of UTC

    async def story(one: Scene) -> None:
        await asyncio.sleep(2.5 * HOUR_S)
        made_s = [receipt.receipt.made_s for receipt in stored(one)[1:]]
        assert len(made_s) in (2, 3) and all(at_s % HOUR_S <= 310 for at_s in made_s), made_s
        assert {round((after - before) / HOUR_S) for before, after in pairwise(made_s)} == {1}
        assert state(one).next_s - made_s[-1] == pytest.approx(HOUR_S, abs=2)
        count = len(stored(one))
        await one.kill()
        await asyncio.sleep(HOUR_S)
        one.start()
        await asyncio.sleep(60)
        assert len(stored(one)) == count + 1
        one.machine.backups.target.trouble = Unreachable("away", remedy="wait", code="unreachable")  # type: ignore[attr-defined]
        await asyncio.sleep(1.8 * HOUR_S)
        assert not state(one).stale and state(one).failures
        await asyncio.sleep(0.4 * HOUR_S)
        assert state(one).stale and "backup_stale" in one.findings()

    play_backups(story, replace(fleet(), backups=cron))


def test_a_node_that_cannot_read_the_expression_keeps_to_the_interval_and_says_so() -> None:
    async def story(one: Scene) -> None:
        await one.settled()
        write(one, b"first")
        await made(one, 1)
        text = one.findings()["backup_times_unreadable"]
        assert "Mars/Base" in text and "cron of [backups] is every 24h instead" in text
        assert 0 < state(one).next_s - stored(one)[0].receipt.made_s <= DAY_S + 1801

    play(replace(fleet(), backups=Backups(cron="@daily", timezone="Mars/Base")), story)


def test_a_new_service_is_backed_up_at_once_and_one_without_such_a_volume_never() -> None:
    async def story(one: Scene) -> None:
        await one.settled()
        await made(one, 1, 60)
        one.apply({"web": web(), "plain": service(name="plain")})
        await one.settled()
        await asyncio.sleep(INTERVAL_S)
        assert {parse(key).service for key in target(one)} == {"web"}

    play(fleet(), story)


def test_a_restarted_agent_makes_no_backup_twice_and_forgets_none() -> None:
    async def story(one: Scene) -> None:
        await asyncio.sleep(60)
        for _ in range(3):
            await one.kill()
            one.start()
            await asyncio.sleep(60)
        assert len(stored(one)) == 1 and state(one).last is not None
        await one.kill()
        await asyncio.sleep(2 * INTERVAL_S)
        one.start()
        await made(one, 2, 60)

    play_backups(story)


def test_a_failed_backup_is_found_tried_again_and_stale_after_two_intervals_m76() -> None:
    async def story(one: Scene) -> None:
        place = one.machine.backups.target
        place.trouble = Unreachable("the hub does not answer", remedy="wait", code="unreachable")  # type: ignore[attr-defined]
        await asyncio.sleep(INTERVAL_S + HOUR_S)
        assert "the hub does not answer" in one.findings()["backup_failed"]
        assert state(one).failures >= 1 and not state(one).stale and "backup_stale" not in one.findings()
        await asyncio.sleep(INTERVAL_S)
        assert state(one).stale and "is 7 h old" in one.findings()["backup_stale"]
        assert len(stored(one)) == 1, "no success is told that is none"
        place.trouble = None  # type: ignore[attr-defined]
        await asyncio.sleep(2 * HOUR_S)
        assert len(stored(one)) >= 2
        assert {"backup_failed", "backup_stale"} & one.findings().keys() == set()
        assert (state(one).failures, state(one).trouble, state(one).stale) == (0, "", False)

    play_backups(story)


def test_an_order_makes_one_now_and_its_failure_is_its_answer() -> None:
    async def story(one: Scene) -> None:
        write(one, b"second")
        order = await ordered(one, "backup")
        _, second = await made(one, 2, 60)
        await asyncio.sleep(1)
        last = state(one).last
        assert last is not None and (last.order, last.digest) == (order, second.digest)
        assert second.receipt.cause == "order" and last.size_bytes == len(b"second")
        archiver(one).trouble = Failed("book.db is damaged", remedy="repair it", code="database_damaged")
        order = await ordered(one, "backup")
        await until(one.rig, lambda: order in state(one).failed_by)
        assert "book.db is damaged" in state(one).trouble and len(stored(one)) == 2
        archiver(one).trouble = OSError(28, "No space left on device")
        order = await ordered(one, "backup")
        await until(one.rig, lambda: order in state(one).failed_by)
        assert "No space left on device" in one.findings()["backup_failed"] and len(stored(one)) == 2

    play_backups(story)


def test_what_no_revision_backs_up_is_refused_by_name() -> None:
    async def story(one: Scene) -> None:
        signed = one.rig.order("w1", one.machine.journal.highest_counter() + 1, "backup", 900, "service.other")
        id = await one.rig.desk.submit(OPERATOR, signed)
        await until(one.rig, lambda: one.machine.journal.result_of(id) is not None)
        found = one.machine.journal.result_of(id)
        assert found is not None and (found.outcome, found.code) == ("failed", "not_found")

    play_backups(story)


@pytest.mark.parametrize("number", range(5))
def test_a_target_that_fails_at_any_object_leaves_no_receipt_of_what_is_not_stored(number: int) -> None:
    """Key, two packs, manifest, receipt: the n-th put fails."""

    async def story(one: Scene) -> None:
        asked: list[str] = []

        def is_it(key: str, content: bytes) -> bool:
            asked.append(key)
            return len(asked) == number + 1

        write(one, b"second")
        with refusing(one.machine.backups.target, "put", Unreachable("cut", remedy="", code="unreachable"), is_it):
            order = await ordered(one, "backup")
            await until(one.rig, lambda: order in state(one).failed_by)
        assert len(stored(one)) == 1 and len(asked) == number + 1
        await ordered(one, "backup")
        _, second = await made(one, 2, 60)
        digests = {parse(key).digest for key in target(one)}
        assert {second.receipt.manifest.digest, *(pack.digest for pack in second.receipt.packs)} <= digests
        assert second.receipt.sequence == 2, "nothing that failed counts"

    play_backups(story)


# ---- beside changes of the service


def test_a_backup_gives_way_to_a_deployment_and_is_made_afterwards_m100() -> None:
    async def story(one: Scene) -> None:
        slow = asyncio.Event()

        def gate() -> "asyncio.Future[None]":
            return asyncio.ensure_future(_wait(slow))

        archiver(one).gate = gate
        await ordered(one, "backup")
        await until(one.rig, lambda: bool(state(one).running_s))
        one.apply({"web": web(2)})
        await one.settled()
        assert len(stored(one)) == 1, "the deployment did not wait for it"
        slow.set()
        _, second = await made(one, 2, 60)
        assert second.receipt.cause == "order" and second.receipt.revision == 2
        assert "backup_failed" not in one.findings()

    play_backups(story)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


@pytest.mark.parametrize(("snapshot", "is_skipped"), [("1m", True), ("10m", False)])
def test_a_backup_waits_for_a_change_as_long_as_the_fleet_says_and_is_skipped_then_c18(
    snapshot: str, is_skipped: bool
) -> None:
    async def story(one: Scene) -> None:
        lanes, over = one.machine.built.agent.lanes, asyncio.Event()

        async def change() -> None:
            await lanes.alone("web")
            await over.wait()

        lanes.put("web", change)
        await asyncio.sleep(1)
        place = len(stored(one))
        keeper = keeper_of(one)
        keeper._books.keep("web", replace(keeper._books.of("web", 0.0), asked_s=one.rig.clock.now_s()))
        keeper._bell.set()
        await asyncio.sleep(300)
        assert ("backup_skipped" in one.findings()) == is_skipped and len(stored(one)) == place
        assert state(one).failures == is_skipped, "it waits no longer: the next attempt comes after a pause"
        over.set()
        await asyncio.sleep(INTERVAL_S)
        assert len(stored(one)) > place and "backup_skipped" not in one.findings()

    play_backups(story, fleet(timeout=snapshot))


# ---- what they hold, and for whom


def test_the_files_of_a_backup_are_those_that_the_service_declares_m92() -> None:
    async def story(one: Scene) -> None:
        job = archiver(one).jobs[-1]
        assert job.rules.volumes == ("book",) and not job.rules.whole
        assert job.rules.include == ("conf/*.ini",) and job.rules.exclude == ("book/tmp", "cache")
        assert job.top == "/memory/web" and job.header.volumes == ("book",) and job.header.covers == "whole"

    play_backups(story, fleet(snapshot=Snapshot(include=("conf/*.ini",), exclude=("book/tmp",))))


def test_the_key_of_a_generation_is_for_operators_and_the_node_and_says_what_it_is_for() -> None:
    async def story(one: Scene) -> None:
        (key,) = [content for name, content in target(one).items() if parse(name).kind == "keys"]
        plain = one.machine.backups.opener.open(key)
        purpose = Purpose(one.machine.membership.fleet, "web", 1)
        assert archive_key.read(plain, purpose).purpose == purpose
        (first,) = stored(one)
        assert first.receipt.generation == 1

    play_backups(story)


def test_a_node_that_takes_a_service_over_begins_a_generation_that_no_other_node_has() -> None:
    async def story(one: Scene) -> None:
        above = one.machine.membership.fleet[:FLEET_DIGITS]
        target(one)[f"{above}/web/g3/keys/{'a' * 64}"] = b"the key of another node"
        target(one)[f"{above}/web/g9999999/keys/{'b' * 64}"] = b"what no node writes"
        await one.settled()
        (first,) = await made(one, 1)
        assert first.receipt.generation == 4
        await ordered(one, "backup")
        assert [receipt.receipt.generation for receipt in await made(one, 2)] == [4, 4]

    play(fleet(), story)


def test_a_service_that_came_back_begins_a_generation_that_the_other_node_did_not_use_meanwhile() -> None:
    """Operators open the first key of a generation that they can: of two keys it could be the wrong one."""

    async def story(one: Scene) -> None:
        above = one.machine.membership.fleet[:FLEET_DIGITS]
        target(one)[f"{above}/web/g2/keys/{'a' * 64}"] = b"the key of the node that had it meanwhile"
        await ordered(one, "backup")
        assert (await made(one, 2, 60))[-1].receipt.generation == 1, "its own goes on"
        one.apply(fleet())
        await one.settled()
        await ordered(one, "backup")
        assert (await made(one, 3, 60))[-1].receipt.generation == 3

    bob = replace(operator_signer("bob", "apply")[0], recipient=BOB)
    play_backups(story, replace(fleet(), operators=(*fleet().operators, bob)))


def test_a_target_that_has_only_another_nodes_backups_gets_a_generation_of_its_own() -> None:
    """Another target became the primary one: the number that this node has is used there already."""

    async def story(one: Scene) -> None:
        above = one.machine.membership.fleet[:FLEET_DIGITS]
        target(one).clear()
        target(one)[f"{above}/web/g4/keys/{'a' * 64}"] = b"the key of another node"
        await ordered(one, "backup")
        assert [receipt.receipt.generation for receipt in await made(one, 1, 60)] == [5]

    play_backups(story)


def test_keys_follow_the_operators_and_no_pack_is_shared_by_two_generations() -> None:
    """An operator sees what the scope covers; one who is gone opens nothing that is made from then on."""

    def reads(one: Scene, recipient: str) -> set[int]:
        found = {parse(name).generation: content for name, content in sorted(target(one).items()) if "/keys/" in name}
        return {number for number, sealed in found.items() if is_opened(sealed, recipient)}

    async def story(one: Scene) -> None:
        assert (reads(one, ANN), reads(one, BOB), reads(one, CAT)) == ({1}, {1}, set())
        one.apply(replace(fleet(), operators=(ann, cat)))
        await one.settled()
        await ordered(one, "backup")
        first, second = await made(one, 2, 60)
        assert (second.receipt.generation, reads(one, ANN), reads(one, BOB)) == (2, {1, 2}, {1})
        job = archiver(one).jobs[-1]
        assert job.header.previous == "" and job.home.endswith("/g2"), "it is the first one of its generation"
        await ordered(one, "restore", "data.web", backup=first.digest)

    ann = replace(operator_signer("alice")[0], recipient=ANN)
    bob = replace(operator_signer("bob", "apply")[0], recipient=BOB)
    cat = replace(operator_signer("cat", "apply", ("service.other",))[0], recipient=CAT)
    play_backups(story, replace(fleet(), operators=(ann, bob, cat)))


def test_numbers_and_keys_go_on_after_a_lost_journal_and_after_a_lost_target() -> None:
    async def story(one: Scene) -> None:
        await ordered(one, "backup")
        _, second = await made(one, 2, 60)
        await one.kill()
        for name in one.machine.journal.facts("backups/"):
            one.machine.journal.drop_fact(name)
        one.start()
        await one.settled()
        third = (await made(one, 3, 60))[-1].receipt
        assert (third.sequence, third.generation, third.previous) == (3, 2, second.digest)
        assert archiver(one).jobs[-1].header.previous == "", "no key opens what was packed before"
        target(one).clear()
        await ordered(one, "backup")
        (fourth,) = await made(one, 1, 60)
        assert (fourth.receipt.sequence, fourth.receipt.generation, fourth.receipt.previous) == (4, 2, "")

    play_backups(story)


def is_opened(sealed: bytes, recipient: str) -> bool:
    try:
        return bool(MemoryOpener(recipient).open(sealed))
    except CannotOpen:
        return False


def test_receipts_that_this_node_did_not_sign_hide_no_own_one_and_lose_nothing() -> None:
    """What another node made, and what a target claims: the next backup follows the last one that this node signed."""

    async def story(one: Scene) -> None:
        (first,) = stored(one)
        above = one.machine.membership.fleet[:FLEET_DIGITS]
        foreign = replace(first.receipt, node="w2", sequence=50, packs=(), previous="")
        content = receipts.sign(key_of("w2"), foreign)
        added = {f"{above}/web/receipts/00000050-{digest_of(content)}": content}
        rotten = f"{above}/web/receipts/00000060-{'a' * 64}"
        target(one).update({**added, rotten: b"rotten"})
        write(one, b"second")
        await ordered(one, "backup")
        await until(one.rig, lambda: state(one).last is not None and state(one).last.sequence == 2)  # type: ignore[union-attr]
        (own,) = [key for key in target(one) if "/receipts/00000002-" in key]
        second = receipts.verify(target(one)[own], one.machine.membership.fleet, "web", {"w1": one.machine.key.line})
        assert (second.receipt.previous, second.receipt.generation) == (first.digest, 1)
        assert archiver(one).jobs[-1].header.previous == first.receipt.manifest.digest

    play_backups(story)


# ---- what stays


def test_as_many_backups_stay_as_the_fleet_says() -> None:
    async def story(one: Scene) -> None:
        for number in range(8):
            write(one, f"page {number}".encode())
            await asyncio.sleep(HOUR_S)
        await asyncio.sleep(VERIFY_S)
        found = [receipt.receipt.sequence for receipt in stored(one)]
        assert found[-1] > 20 and found[-3:] == list(range(found[-1] - 2, found[-1] + 1)), "the newest three"
        assert len(found) <= 5, "and the newest one that was read back, and the newest that was proven"
        needed = {pack.digest for receipt in stored(one) for pack in receipt.receipt.packs}
        packs = {parse(key).digest for key in target(one) if parse(key).kind == "packs"}
        assert packs == needed, "nothing that they need is gone, and nothing else is left"

    play_backups(story, fleet("1h", retain=3))


def test_a_damaged_receipt_is_told_because_nothing_that_it_may_name_is_deleted() -> None:
    """Else the target would fill without a word."""

    async def story(one: Scene) -> None:
        above = f"{one.machine.membership.fleet[:FLEET_DIGITS]}/web"
        rotten, lost = f"{above}/receipts/00000001-{'a' * 64}", f"{above}/g1/packs/{'b' * 64}"
        target(one).update({rotten: b"rotten", lost: b"that no whole receipt names"})
        await asyncio.sleep(60.0)
        write(one, b"second")
        await ordered(one, "backup")
        await until(one.rig, lambda: rotten in one.findings().get("backup_not_pruned", ""), 120.0)
        assert lost in target(one)
        del target(one)[rotten]
        await ordered(one, "backup")
        await until(one.rig, lambda: "backup_not_pruned" not in one.findings() and lost not in target(one), 120.0)

    play_backups(story)


def test_no_backup_waits_while_a_target_frees_its_space_and_that_is_done_afterwards() -> None:
    """restic may take an hour for it."""

    async def story(one: Scene) -> None:
        begun, over = list[float](), list[float]()

        async def tidy() -> None:
            begun.append(one.rig.loop.time())
            await asyncio.sleep(600.0)
            over.append(one.rig.loop.time())

        await asyncio.sleep(60.0)
        one.machine.backups.target.tidy = tidy  # type: ignore[attr-defined]
        await ordered(one, "backup")
        await until(one.rig, lambda: len(begun) == 1, 60.0)
        await ordered(one, "backup")
        asked_s = one.rig.loop.time()
        await until(one.rig, lambda: state(one).last is not None and state(one).last.sequence == 3, 60.0)  # type: ignore[union-attr]
        assert one.rig.loop.time() - asked_s < 30.0 and not over
        await until(one.rig, lambda: len(over) == 1, 700.0)
        assert len(begun) == 2

    play_backups(story, fleet(retain=1))


def test_nothing_is_deleted_before_one_that_stays_was_read_back() -> None:
    async def story(one: Scene) -> None:
        place = one.machine.backups.target
        place.trouble = None  # type: ignore[attr-defined]
        with refusing(one.machine.backups.target, "get", Unreachable("no", remedy="", code="unreachable")):
            await asyncio.sleep(6 * HOUR_S)
        assert stored(one)[0].receipt.sequence == 1
        await asyncio.sleep(3 * HOUR_S)
        assert len(stored(one)) <= 3

    play_backups(story, fleet("1h", retain=2))


def test_a_backup_that_takes_long_to_read_back_is_read_in_the_pauses_between_the_next_ones() -> None:
    """Else none would ever be read whole, and no old one deleted."""

    async def story(one: Scene) -> None:
        await one.settled()
        one.machine.storage.contents["web"].update({f"book/{number}": bytes([number]) for number in range(20)})
        found = one.machine.backups.target.get

        async def slow(key: str) -> bytes | None:
            await asyncio.sleep(300.0 if parse(key).kind == "packs" else 0.0)
            return await found(key)

        one.machine.backups.target.get = slow  # type: ignore[method-assign]
        await made(one, 1)
        await until(one.rig, lambda: bool(read_back(one)), 3 * HOUR_S)

    play(fleet("1h"), story)


def read_back(one: Scene) -> dict[str, float]:
    """Digest of a receipt → when every byte of that backup was last read and right."""
    return msgspec.json.decode(one.machine.journal.fact("backups/verified/web") or b"{}", type=dict[str, float])


def test_a_damaged_object_is_found_and_the_next_backup_does_not_refer_to_it() -> None:
    async def story(one: Scene) -> None:
        await asyncio.sleep(60)
        await ordered(one, "backup")
        await asyncio.sleep(60)
        digest = stored(one)[-1].receipt.packs[-1].digest
        (pack,) = [key for key in target(one) if parse(key).kind == "packs" and parse(key).digest == digest]
        target(one)[pack] = b"bit rot" + target(one)[pack][7:]
        await asyncio.sleep(VERIFY_S + 2 * HOUR_S)
        assert "is damaged where it is stored" in one.findings()["backup_damaged"]
        await ordered(one, "backup")
        await asyncio.sleep(5)
        alive = archiver(one).jobs[-1].alive
        assert alive is not None and digest not in alive, "so that it is packed again"

    play_backups(story)


# ---- what comes back


def test_a_restore_puts_the_backup_in_the_place_of_the_data_which_becomes_a_checkpoint() -> None:
    async def story(one: Scene) -> None:
        (first,) = stored(one)
        write(one, b"damaged")
        one.machine.storage.contents["web"]["cache/x"] = b"newer"
        await ordered(one, "restore", "data.web", backup=first.digest)
        await one.settled()
        files = one.machine.storage.contents["web"]
        assert files["book/page"] == b"first" and files["cache/x"] == b"newer", "what backups do not hold stays"
        texts = [made["book/page"] for _, made in one.machine.storage.copies.values() if "book/page" in made]
        assert b"damaged" in texts and one.one().running

    play_backups(story)


def test_a_volume_that_a_backup_did_not_bring_begins_in_a_restore_with_what_the_image_has() -> None:
    """As in a drill, which said that it works; one that no backup holds stays as it is."""

    async def story(one: Scene) -> None:
        (old,) = stored(one)
        seeded = {path: Directory({"seed": b"of the image"}) for path in ("/art", "/cache", "/book")}
        one.machine.runtime.images[one.one().image] = Image(directories=seeded)
        wider = service(1, volumes=(*VOLUMES, Volume("art", "/art", "backup")))
        one.apply(fleet(components=wider.components))
        await one.settled()
        contents = one.machine.storage.contents
        contents["web"].update({"art/page": b"later", "book/page": b"second"})
        await ordered(one, "restore", "data.web", backup=old.digest)
        assert contents["web"]["art/seed"] == b"of the image" and "art/page" not in contents["web"]
        assert contents["web"]["book/page"] == b"first" and "book/seed" not in contents["web"]
        assert contents["web"]["cache/x"] == b"of no value" and "cache/seed" not in contents["web"]
        left = [kept.seen.name for kept in one.machine.runtime._kept.values() if "_load" in kept.seen.name]
        assert left == []

    play_backups(story)


def test_a_backup_is_brought_back_beside_the_data_with_grade_apply() -> None:
    async def story(one: Scene) -> None:
        (first,) = stored(one)
        write(one, b"of now")
        await ordered(one, "fetch-backup", "data.web", backup=first.digest)
        assert one.machine.storage.contents["web"]["book/page"] == b"of now"
        (copy,) = [files for _, files in one.machine.storage.copies.values()]
        assert copy["book/page"] == b"first" and "cache/x" not in copy

    play_backups(story)


def test_a_restore_that_is_cut_by_a_crash_goes_on() -> None:
    async def story(one: Scene) -> None:
        (first,) = stored(one)
        write(one, b"damaged")
        counter = one.machine.journal.highest_counter() + 1
        signed = one.rig.order("w1", counter, "restore", 900, "data.web", backup=first.digest)
        id = await one.rig.desk.submit(OPERATOR, signed)
        for _ in range(4):
            await asyncio.sleep(0.02)
            await one.kill()
            one.start()
        await until(one.rig, lambda: one.machine.journal.result_of(id) is not None)
        found = one.machine.journal.result_of(id)
        assert found is not None and found.outcome == "done", found
        assert one.machine.storage.contents["web"]["book/page"] == b"first"

    play_backups(story)


@pytest.mark.parametrize("digest", ["f" * 64, "", "../../etc"])
def test_a_backup_that_is_not_there_changes_nothing(digest: str) -> None:
    async def story(one: Scene) -> None:
        counter = one.machine.journal.highest_counter() + 1
        signed = one.rig.order("w1", counter, "restore", 900, "data.web", backup=digest)
        id = await one.rig.desk.submit(OPERATOR, signed)
        await until(one.rig, lambda: one.machine.journal.result_of(id) is not None)
        found = one.machine.journal.result_of(id)
        assert found is not None and found.outcome == "failed" and found.remedy
        assert one.machine.storage.contents["web"]["book/page"] == b"first" and not one.machine.storage.copies

    play_backups(story)


# ---- what the target lost


@pytest.mark.parametrize("lost", ["all of it", "the newest backups", "a pack"])
def test_a_backup_relies_on_nothing_that_the_target_has_lost(lost: str) -> None:
    """A hub that is put back to an older copy of its disk, or has another disk."""

    async def story(one: Scene) -> None:
        remembering(one)
        kept: dict[str, bytes] = {}
        for number in (2, 3, 4):
            one.machine.storage.contents["web"][f"book/{number}"] = b"%d" % number
            await ordered(one, "backup")
            await until(one.rig, lambda: stored(one)[-1].receipt.sequence == number, 60.0)  # noqa: B023
            kept = kept or dict(target(one))
        if lost == "a pack":
            del target(one)[next(key for key in target(one) if parse(key).kind == "packs" and key not in kept)]
        else:
            target(one).clear()
            target(one).update(kept if lost == "the newest backups" else {})
        await ordered(one, "backup")
        await until(one.rig, lambda: bool(stored(one)) and stored(one)[-1].receipt.sequence == 5, 60.0)
        newest = stored(one)[-1].receipt
        assert {newest.manifest.digest, *(pack.digest for pack in newest.packs)} <= {
            parse(key).digest for key in target(one)
        }

    play_backups(story, fleet(retain=9))


def test_what_a_cut_run_shipped_and_pruning_deleted_is_shipped_again() -> None:
    async def story(one: Scene) -> None:
        found, sent = remembering(one), list[str]()
        one.machine.storage.contents["web"].update({f"book/{number}": b"%d" % number for number in range(20)})
        place = one.machine.backups.target
        put = place.put

        async def cut(key: str, content: bytes) -> None:
            if len(sent) == 3 and parse(key).kind == "packs":
                raise Unreachable("the hub does not answer", remedy="wait")
            sent.extend([key] if parse(key).kind == "packs" else [])
            await put(key, content)

        place.put = cut  # type: ignore[method-assign]
        await ordered(one, "backup")
        await until(one.rig, lambda: state(one).failures == 1, 60.0)
        assert found and len(sent) == 3 and set(sent) <= target(one).keys()
        rounds = keeper_of(one)._rounds
        await rounds._targets.primary.verified.look("web", stored(one)[0].digest, one.rig.clock.now_s())
        await rounds._prune("web")
        assert not set(sent) & target(one).keys(), "no receipt names them"
        place.put = put  # type: ignore[method-assign]
        await made(one, 2)
        assert lacking(one) == set()

    play_backups(story, fleet(retain=9))


def test_a_damaged_key_at_the_target_stops_no_backup_and_the_next_one_can_be_opened() -> None:
    """A put replaces nothing: with the same key every backup would fail from now on."""

    async def story(one: Scene) -> None:
        (first,) = stored(one)
        key = next(key for key in target(one) if parse(key).kind == "keys")
        target(one)[key] = b"rotten"
        await ordered(one, "backup")
        newest = (await made(one, 2, 60.0))[-1].receipt
        assert newest.generation > first.receipt.generation and lacking(one) == set()
        (fresh,) = [
            content
            for name, content in target(one).items()
            if parse(name).kind == "keys" and parse(name).generation == newest.generation
        ]
        opened = MemoryOpener(one.machine.key.line).open(fresh)
        assert archive_key.read(opened, Purpose(one.machine.membership.fleet, "web", newest.generation))
        await ordered(one, "backup")
        assert (await made(one, 3, 60.0))[-1].receipt.generation == newest.generation, "and that one goes on"

    play_backups(story)
