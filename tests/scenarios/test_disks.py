"""Disks that fill up: a node reports them, the hub tells people once, also of its own disk (issue 14, I-30)."""

import asyncio

from msgspec.structs import replace

from holdfast.agent.disks.keeper import FACT
from holdfast.ledger import keys
from holdfast.model.disk_room import DiskRoom
from tests.fleets.agents import until
from tests.fleets.build import small_fleet
from tests.fleets.deploying import Scene, play, service
from tests.fleets.desks import Rig
from tests.fleets.virtual import VirtualLoop, run


def room(free: int, name: str = "data", device: int = 1) -> DiskRoom:
    return DiskRoom(name, f"/{name}", device, (100 - free) << 30, free << 30, 50, 50)


def said(rig: Rig) -> list[tuple[str, str]]:
    return [one for one in rig.told.said if one[0].startswith("disk_")]


def test_a_disk_of_a_node_that_fills_up_is_one_alarm_and_one_recovery_over_restarts_of_the_agent() -> None:
    alarm, recovery = ("disk_filling", "disk.w1.data"), ("disk_has_room", "disk.w1.data")

    async def story(scene: Scene) -> None:
        hardware = scene.machine.hardware
        await scene.settled()
        hardware.rooms = [room(12)]
        await asyncio.sleep(100)
        assert said(scene.rig) == []
        hardware.rooms = [room(7)]
        await until(scene.rig, lambda: "disk_filling" in scene.findings(), 15)
        assert "/data is filling up: 7% free" in scene.findings()["disk_filling"]
        await until(scene.rig, lambda: said(scene.rig) == [alarm], 60)
        assert scene.rig.told.alerts[-1].message.startswith("w1: the disk of /data")
        for free in (12, 8, 14, 3):  # it comes and goes between the two limits
            hardware.rooms = [room(free)]
            await asyncio.sleep(60)
        hardware.rooms = [room(12)]
        await scene.kill()
        scene.start()
        await asyncio.sleep(100)
        assert said(scene.rig) == [alarm] and "disk_filling" in scene.findings()
        hardware.rooms = []  # it does not answer
        await asyncio.sleep(100)
        assert said(scene.rig) == [alarm]
        hardware.rooms = [room(16)]
        await until(scene.rig, lambda: said(scene.rig) == [alarm, recovery], 60)
        assert "disk_filling" not in scene.findings() and scene.machine.journal.fact(FACT) == b"[]"
        await asyncio.sleep(200)
        assert said(scene.rig) == [alarm, recovery]

    play({"web": service()}, story)


def test_each_disk_of_a_node_has_its_own_alarm() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.hardware.rooms = [room(5), room(4, "state"), room(3, "containers", 2)]
        await asyncio.sleep(100)
        assert sorted(said(scene.rig)) == [("disk_filling", "disk.w1.containers"), ("disk_filling", "disk.w1.data")]
        scene.machine.hardware.rooms[2] = replace(scene.machine.hardware.rooms[2], free_bytes=80 << 30)
        await asyncio.sleep(100)
        assert said(scene.rig)[2:] == [("disk_has_room", "disk.w1.containers")]

    play({"web": service()}, story)


def test_the_disk_of_the_hub_is_one_alarm_and_one_recovery_over_restarts_of_the_hub() -> None:
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, small_fleet((), ("w1",)))
        rig.rooms = [room(50, "state")]

        async def life(rig: Rig, *free: int) -> Rig:
            """One hub process, and the next one."""
            running = asyncio.create_task(rig.desk.run())
            await asyncio.sleep(1)
            for part in free:
                rig.rooms[:] = [room(part, "state")] if part else []
                await asyncio.sleep(30)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return rig.restarted()

        rig = await life(rig, 50, 12)
        assert said(rig) == []
        rig = await life(rig, 8, 12)
        assert said(rig) == [("disk_filling", "hub")] and "/state is filling up: 8% free" in rig.told.alerts[0].message
        rig = await life(rig, 14, 0, 9)  # 0: it does not answer
        assert said(rig) == [("disk_filling", "hub")]
        rig = await life(rig, 9)
        running = asyncio.create_task(rig.desk.run())
        await asyncio.sleep(1)
        assert ("disk_filling", "hub") in [(one.code, one.address) for one in rig.desk.status_findings()]
        running.cancel()
        rig = await life(rig.restarted(), 20, 20)
        assert said(rig) == [("disk_filling", "hub"), ("disk_has_room", "hub")]
        assert rig.store.scan(keys.TOLD_DISKS) == []
        await life(rig, 20)
        assert len(said(rig)) == 2

    run(main)
