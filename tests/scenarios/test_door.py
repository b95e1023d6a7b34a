"""The door lets through what was approved: host paths, runs of schedules and orphans, also after an upgrade."""

from msgspec.structs import replace

from holdfast.gate.containers import RUN
from holdfast.model.fleet import Service
from holdfast.model.schedule import Schedule
from holdfast.ports.prober import Verdict
from tests.fleets.agents import until
from tests.fleets.build import ALICE_SIGNER
from tests.fleets.deploying import Scene, component, image, play, service
from tests.fleets.raid import Raid, fleet

HOSTS = "/etc/hosts:/x"
APPROVED = fleet({"web": service(1, volumes=(HOSTS,))})


async def raid_of(scene: Scene) -> Raid:
    await scene.kill()
    raid = Raid(scene, APPROVED)
    raid.machine.storage.elsewhere.add("/root")
    await raid.begun()
    assert raid.mounts("web", "/etc/hosts")
    return raid


def test_a_key_of_grade_apply_updates_a_service_with_an_approved_path() -> None:
    async def story(scene: Scene) -> None:
        raid = await raid_of(scene)
        await raid.signs(web=service(2, volumes=(HOSTS,)))
        assert raid.serves() and raid.mounts("web", "/etc/hosts")

    play(APPROVED, story)


def test_a_release_that_noted_no_approvals_is_taken_over() -> None:
    """What is in force is approved once; the container is not restarted, and no other path comes with it."""

    async def story(scene: Scene) -> None:
        raid = await raid_of(scene)
        await scene.kill()
        newest = raid.machine.acceptance.newest()
        assert newest is not None
        raid.machine.acceptance._newest = replace(newest, approved=None)
        (before,) = scene.ours()
        scene.start()
        await raid.rest()
        assert [one.id for one in scene.ours()] == [before.id]
        await raid.signs(web=service(2, volumes=(HOSTS,)))
        assert raid.serves() and raid.mounts("web", "/etc/hosts")
        await raid.signs(web=service(3, volumes=(HOSTS, "/root:/y")))
        assert not raid.serves() and not raid.mounts("web", "/root")

    play(APPROVED, story)


def test_a_failed_update_goes_back_to_what_served_with_its_path() -> None:
    async def story(scene: Scene) -> None:
        raid = await raid_of(scene)
        raid.machine.prober.script(image(2), Verdict(False, "answered 500"))
        await raid.signs(ALICE_SIGNER, web=service(2))
        state = scene.state()
        assert state is not None and state.phase == "failed"
        assert raid.mounts("web", "/etc/hosts") and all(one.running for one in scene.ours())

    play(APPROVED, story)


def test_a_run_that_an_earlier_release_began_is_ended_and_removed() -> None:
    """Its name was in the book of that schedule only."""
    long = Schedule("long", "main", "* * * * *", ("sleep", "1000"), timeout="90s")
    scheduled = Service((component(1),), schedule=(long,))

    async def story(scene: Scene) -> None:
        await scene.settled()
        runtime = scene.machine.runtime

        def runs() -> list[str]:
            return [kept.seen.name for kept in runtime._kept.values() if "_run-" in kept.seen.name]

        await until(scene.rig, lambda: bool(runs()))
        (name,) = runs()
        assert scene.machine.journal.made_by(RUN + name) == "schedule"
        await scene.kill()
        scene.machine.journal.forget_made(RUN + name)
        scene.start()
        await until(scene.rig, lambda: name not in runs(), 200)
        assert scene.machine.journal.made_by(RUN + name) is None, "it is gone, and so is its note"

    play({"web": scheduled}, story)
