"""The file of the hub on the storage targets of its node, over memory in virtual time (issue 16 §5)."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.backup_target import troubles
from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.adapters.hub_copy.memory import MemoryHubCopy
from holdfast.agent.keeper import OrderRun
from holdfast.errors import Invalid
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.backup_key import parse
from holdfast.model.backup_report import BackupState
from holdfast.model.fleet import Fleet, Node, Role, Storage
from holdfast.model.journal import Operation
from holdfast.trust import receipts
from tests.fleets.agents import until
from tests.fleets.deploying import Scene, Story, play
from tests.scenarios.test_backups import HOUR_S, INTERVAL_S, fleet, keeper_of, ordered, target

NAME, TOP = "hub.w1", "hub-copy"
NAS = Storage("nas", "local-dir", "nas:/export", location="/mnt/nas")
BOX = Storage("box", "local-dir", "box-1", location="/srv/box", role="primary")


def hub_fleet(*targets: Storage, roles: tuple[Role, ...] = ("hub", "worker"), **changed: Any) -> Fleet:
    made = fleet(**changed)
    return replace(made, nodes={"w1": Node("w1", roles)}, storage={one.name: one for one in targets})


def hub_of(one: Scene) -> MemoryHubCopy:
    found = one.machine.backups.hub
    assert isinstance(found, MemoryHubCopy)
    return found


def at(one: Scene, name: str = "nas") -> MemoryTarget:
    return one.machine.targets.made[name]


def files(one: Scene, name: str = "nas") -> list[VerifiedReceipt]:
    """Of the hub, on a target; oldest first."""
    keys = {"w1": one.machine.key.line}
    found = [
        receipts.verify(content, one.machine.membership.fleet, NAME, keys)
        for key, content in at(one, name).objects.items()
        if parse(key).service == NAME and parse(key).kind == "receipts"
    ]
    return sorted(found, key=lambda receipt: receipt.receipt.sequence)


def state(one: Scene) -> BackupState | None:
    return next((found for found in keeper_of(one).section().backups if found.service == NAME), None)


def play_hub(story: Story, declared: Fleet) -> None:
    """The hub makes a file whenever it is asked."""

    async def whole(one: Scene) -> None:
        await one.settled()
        one.machine.storage.contents[TOP] = {"hub.tar.zst.age": b"sealed to operators"}
        hub_of(one).top = f"/memory/{TOP}"
        one.apply(declared)
        await one.settled()
        await story(one)

    play(replace(declared, nodes={"w1": Node("w1", ("worker",))}, storage={}), whole)  # as which it was invited


def test_the_node_of_the_hub_stores_its_file_at_every_interval_on_its_targets_and_never_at_the_hub() -> None:
    async def story(one: Scene) -> None:
        await until(one.rig, lambda: len(files(one)) == 1, 60.0)
        first = files(one)[0].receipt
        assert (first.node, first.cause, first.method) == ("w1", "schedule", "hub")
        await asyncio.sleep(3 * INTERVAL_S)
        assert len(files(one)) in (3, 4) and hub_of(one).fetched == len(files(one))
        found = state(one)
        assert found is not None and found.last is not None and found.last.target == "nas"
        assert [each.target for each in found.copies] == ["nas"]
        assert not [key for key in target(one) if parse(key).service == NAME], "the hub stores its own file"

    play_hub(story, hub_fleet(NAS))


def test_retention_keeps_as_many_files_of_the_hub_as_of_a_service() -> None:
    async def story(one: Scene) -> None:
        await until(one.rig, lambda: len(files(one)) == 1, 60.0)
        for number in range(2, 6):
            one.machine.storage.contents[TOP]["hub.tar.zst.age"] = b"%d" % number
            await ordered(one, "backup", "node.w1", what="hub")
            await until(one.rig, lambda: files(one)[-1].receipt.sequence == number, 60.0)  # noqa: B023
            await asyncio.sleep(20.0)
        assert [found.receipt.sequence for found in files(one)] == [1, 4, 5], "and the one that was read back"
        assert files(one)[-1].receipt.cause == "order"

    play_hub(story, hub_fleet(NAS, retain=2))


def test_a_target_on_another_machine_decides_also_beside_a_primary_one_on_the_machine_of_the_hub() -> None:
    async def story(one: Scene) -> None:
        await until(one.rig, lambda: len(files(one)) == 1 and len(files(one, "box")) == 1, HOUR_S)
        found = state(one)
        assert found is not None and found.last is not None and found.last.target == "nas"
        assert {each.target: each.same_machine for each in found.copies} == {"nas": False, "box": True}

    play_hub(story, hub_fleet(NAS, BOX))


def test_a_hub_that_makes_no_file_is_said_and_becomes_stale_and_delays_no_backup_of_a_service() -> None:
    async def story(one: Scene) -> None:
        await until(one.rig, lambda: len(files(one)) == 1, 60.0)
        hub_of(one).top = ""
        await until(one.rig, lambda: "backup_failed" in one.findings(), 3 * INTERVAL_S)
        assert one.agent is not None
        (failed,) = [each for each in one.agent.findings.all() if each.code == "backup_failed"]
        assert failed.address == NAME, "a backup of the node itself would end the finding of the hub"
        await until(one.rig, lambda: "backup_stale" in one.findings(), 3 * INTERVAL_S)
        found = state(one)
        assert found is not None and found.stale and "made no file" in found.trouble
        one.machine.storage.contents["web"].update({"book/page": b"new"})
        await ordered(one, "backup")
        await until(one.rig, lambda: any(parse(key).service == "web" for key in target(one)), 60.0)
        hub_of(one).top = f"/memory/{TOP}"
        await until(one.rig, lambda: not {"backup_failed", "backup_stale"} & set(one.findings()), 2 * HOUR_S)

    play_hub(story, hub_fleet(NAS))


def test_a_target_that_is_away_fails_the_backup_of_the_hub_and_gets_the_next_one() -> None:
    async def story(one: Scene) -> None:
        await until(one.rig, lambda: len(files(one)) == 1, 60.0)
        at(one).trouble = troubles.missing("nas", "it was unplugged")
        await until(one.rig, lambda: "backup_failed" in one.findings(), 3 * INTERVAL_S)
        at(one).trouble = None
        await until(one.rig, lambda: len(files(one)) == 2, 2 * HOUR_S)

    play_hub(story, hub_fleet(NAS))


@pytest.mark.parametrize(
    ("roles", "targets"), [(("worker",), (NAS,)), (("hub", "worker"), ()), (("hub", "worker"), ("disconnected",))]
)
def test_no_other_node_and_no_node_without_a_target_keeps_the_file_of_the_hub(
    roles: tuple[Role, ...], targets: tuple[Any, ...]
) -> None:
    async def story(one: Scene) -> None:
        await asyncio.sleep(3 * INTERVAL_S)
        assert state(one) is None and hub_of(one).fetched == 0 and "backup_stale" not in one.findings()

    used = [replace(NAS, state=one) if isinstance(one, str) else one for one in targets]
    play_hub(story, hub_fleet(*used, roles=roles))


def test_a_hub_cannot_say_when_it_is_copied() -> None:
    """It chooses the bytes; how many files of it there are follows from the revision and from operators' orders."""

    async def story(one: Scene) -> None:
        await until(one.rig, lambda: len(files(one)) == 1, 60.0)
        wish = OrderRun(Operation("1" * 32, "backup", NAME, one.rig.loop.time(), {}, "", 1), None)
        with pytest.raises(Invalid):
            await keeper_of(one).acts["backup"].perform(wish)

    play_hub(story, hub_fleet(NAS))
