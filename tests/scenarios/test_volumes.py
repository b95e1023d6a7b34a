"""A hub and an agent over memory: data has a passport. No writer gets data before a checkpoint, no service data that
the agent did not make, and data in use is not purged."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from holdfast.agent.services.data.passports import PREFIX
from holdfast.agent.services.data.volumes import SINCE
from holdfast.model.container import Mount
from holdfast.model.fleet import Health, Hooks, Route, Service, Volume
from holdfast.model.order import OrderResult
from holdfast.model.passport import Passport
from holdfast.model.schedule import Schedule
from holdfast.ports.prober import Verdict
from tests.fleets.agents import until
from tests.fleets.build import digest_pinned
from tests.fleets.deploying import Scene, component, play, service
from tests.fleets.desks import OPERATOR

DATA = Volume("book", "/data", "none")
WIPE = ("sh", "-c", "rm -rf /data/*")
BAD = Verdict(False, "answered 500")
DAILY = Schedule("wipe", "main", "0 3 * * *", WIPE)


def kept(version: int = 1, **changed: Any) -> Service:
    return service(version, volumes=(DATA,), **changed)


def with_schedule() -> Service:
    return Service((component(1, volumes=(DATA,)),), schedule=(DAILY,))


def write(scene: Scene, text: bytes = b"the only copy", name: str = "web") -> None:
    scene.machine.storage.contents[name]["book/page"] = text


def copies(scene: Scene, name: str = "web") -> list[bytes | None]:
    found = scene.machine.storage.copies
    return [files.get("book/page") for (service, _), (_, files) in found.items() if service == name]


def passport(scene: Scene, place: str = "web/book") -> Passport:
    text = scene.machine.journal.fact(PREFIX + place)
    assert text is not None
    return msgspec.json.decode(text, type=Passport)


# Every way in which a revision of grade apply gives the data to another program (X01).
NEW_WRITERS: dict[str, Callable[[], Service]] = {
    "another image": lambda: kept(2),
    "another command": lambda: kept(cmd=WIPE),
    "another variable": lambda: kept(env={"MODE": "wipe"}),
    "a hook that gets the volumes": lambda: kept(hooks=Hooks(post_deploy=WIPE)),
    "a health check that runs inside": lambda: kept(health=Health("exec", cmd=WIPE, start_period="8s")),
    "a schedule": with_schedule,
    "another path in the container": lambda: service(1, volumes=(Volume("book", "/var/lib/data", "none"),)),
}


@pytest.mark.parametrize("how", sorted(NEW_WRITERS))
def test_another_writer_gets_data_only_after_a_checkpoint_x01(how: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        scene.machine.runtime.calls.clear()
        scene.apply({"web": NEW_WRITERS[how]()})
        state = await scene.settled()
        names = [step.name for step in state.steps]
        assert copies(scene) == [b"the only copy"]
        assert names.index("stop old main 0") < names.index("checkpoint main") < names.index("start main 0")
        assert passport(scene).checkpoint.startswith(state.applied)

    play({"web": kept()}, story)


def test_another_image_after_an_undeploy_gets_data_only_after_a_checkpoint_x01() -> None:
    """No container is left to compare with: the passport stays with the data."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        scene.apply({})
        await until(scene.rig, lambda: scene.ours() == [])
        assert copies(scene) == []
        scene.apply({"web": kept(2)})
        await scene.settled()
        assert copies(scene) == [b"the only copy"]

    play({"web": kept()}, story)


@pytest.mark.parametrize(
    "same",
    [
        lambda: kept(replicas=1, routes=(Route("main-http", 8080), Route("more", 9090))),
        lambda: kept(hooks=Hooks(pre_deploy=("migrate",))),
    ],
)
def test_a_change_that_gives_the_data_to_no_other_program_needs_no_checkpoint(same: Callable[[], Service]) -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        scene.apply({"web": same()})
        await scene.settled()
        assert copies(scene) == []

    play({"web": kept()}, story)


def test_after_a_failed_attempt_the_next_one_makes_another_checkpoint() -> None:
    """What served before wrote more meanwhile."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        scene.machine.prober.script(digest_pinned("web:2"), *[BAD] * 99)
        scene.apply({"web": kept(2)})
        await scene.settled("failed")
        assert copies(scene) == [b"the only copy"] and passport(scene).attempt == ()
        write(scene, b"more")
        scene.apply({"web": kept(3)})
        await scene.settled()
        assert copies(scene) == [b"the only copy", b"more"]

    play({"web": kept()}, story)


# ---- volumes that no container has had


def pair(version: int = 1) -> Service:
    log = Volume("log", "/log", "none")
    return Service((component(version, volumes=(DATA,)), component(version, "side", volumes=(log,))))


def test_the_first_deployment_of_two_components_with_volumes_makes_no_checkpoint() -> None:
    """The container that is started first writes into its own volume only."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        assert scene.machine.storage.copies == {} and passport(scene).began == ()
        write(scene)
        scene.apply({"web": pair(2)})
        await scene.settled()
        assert copies(scene)[:1] == [b"the only copy"]

    play({"web": pair()}, story)


@pytest.mark.parametrize("cut", ["image_directory", "create"])
def test_what_lies_in_a_volume_that_no_container_has_had_is_copied_before_the_first_one_gets_it(cut: str) -> None:
    """Not from its image: it was put there by hand while the deployment could not go on."""

    async def story(scene: Scene) -> None:
        scene.machine.runtime.cut(cut)
        await until(scene.rig, lambda: "book/" in scene.machine.storage.contents.get("web", {}))
        write(scene)
        await scene.settled()
        assert copies(scene) == [b"the only copy"]

    play({"web": kept()}, story)


# ---- data that the agent did not make


def test_a_directory_that_the_agent_did_not_make_is_given_to_no_service_x02() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.storage.contents["git"] = {"book/page": b"made by hand"}
        scene.apply({"web": service(), "git": kept()})
        state = await scene.settled("failed", "git")
        assert state.code == "data_not_made_here" and "/memory/git/book" in state.message
        assert state.remedy.startswith("look at it, then attach it: `holdfast volume adopt git -n w1`")
        assert [one for one in scene.ours() if one.service == "git"] == []
        (found,) = scene.machine.built.services.section().unattached
        assert (found.service, found.path, found.files, found.names) == ("git", "/memory/git/book", 1, ("page",))

    play({"web": service()}, story)


@pytest.mark.parametrize("content", [{}, {"book/": b""}])
def test_an_empty_directory_may_be_used_by_the_service_of_its_name(content: dict[str, bytes]) -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.storage.contents["git"] = content
        scene.apply({"web": service(), "git": kept()})
        await scene.settled("converged", "git")

    play({"web": service()}, story)


def test_an_order_of_grade_destroy_attaches_it_and_a_checkpoint_comes_first_x02() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.storage.contents["git"] = {"book/page": b"made by hand"}
        scene.apply({"web": service(), "git": kept()})
        await scene.settled("failed", "git")
        result = await ordered(scene, "adopt", "data.git")
        assert (result.outcome, result.message) == ("done", "attached to service.git: /memory/git/book")
        await scene.settled("converged", "git")
        assert copies(scene, "git") == [b"made by hand"]
        assert scene.machine.built.services.section().unattached == ()
        again = await ordered(scene, "adopt", "data.git")
        assert (again.outcome, again.code) == ("failed", "nothing_to_adopt")

    play({"web": service()}, story)


async def ordered(scene: Scene, action: str, target: str) -> OrderResult:
    signed = scene.rig.order("w1", scene.machine.journal.highest_counter() + 1, action, target=target)
    id = await scene.rig.desk.submit(OPERATOR, signed)
    await until(scene.rig, lambda: scene.machine.journal.result_of(id) is not None)
    found = scene.machine.journal.result_of(id)
    assert found is not None
    return found


# ---- passports


def test_a_lost_journal_is_replaced_by_the_signed_copies_beside_the_data() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        before = passport(scene)
        await scene.kill()
        scene.machine.journal.drop_fact(PREFIX + "web/book")
        scene.start()
        await scene.settled()
        scene.apply({"web": kept(2)})
        await scene.settled()
        assert copies(scene) == [b"the only copy"] and passport(scene).maker == before.maker

    play({"web": kept()}, story)


@pytest.mark.parametrize("how", ["changed", "of another place", "unreadable", "signed by another key"])
def test_a_copy_that_this_node_did_not_sign_for_this_volume_proves_nothing(how: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        await scene.settled("converged", "other")
        write(scene)
        held = scene.machine.storage.passports
        text = held["web/book"]
        held["web/book"] = {
            "changed": text.replace(b'"text":"', b'"text":"eyJ'),
            "of another place": held["other/book"],
            "unreadable": b"\xff{",
            "signed by another key": text.replace(b"-----BEGIN", sha256(text).hexdigest().encode()),
        }[how]
        await scene.kill()
        scene.machine.journal.drop_fact(PREFIX + "web/book")
        scene.start()
        scene.apply({"web": kept(2), "other": kept()})
        state = await scene.settled("failed")
        assert state.code == "data_not_made_here" and copies(scene) == []

    play({"web": kept(), "other": kept()}, story)


def test_volumes_of_a_release_without_passports_are_taken_over_once() -> None:
    """The next writer gets the data after a checkpoint; the same one goes on without."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        await scene.kill()
        for fact in (PREFIX + "web/book", SINCE):
            scene.machine.journal.drop_fact(fact)
        scene.machine.storage.passports.clear()
        one = scene.one()
        scene.start()
        await scene.settled()
        assert scene.one().id == one.id and passport(scene).maker == "taken over" and copies(scene) == []
        scene.machine.runtime.vanish(one.id)
        await until(scene.rig, lambda: bool(scene.ours()) and scene.one().running)
        assert copies(scene) == []
        scene.apply({"web": kept(2)})
        await scene.settled()
        assert copies(scene) == [b"the only copy"]

    play({"web": kept()}, story)


# ---- purge


def test_data_of_an_applied_service_is_not_purged_x06() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        result = await ordered(scene, "purge", "data.web")
        assert (result.outcome, result.code) == ("failed", "in_use")
        assert "holdfast undeploy web" in result.remedy
        assert scene.machine.storage.contents["web"]["book/page"] == b"the only copy"

    play({"web": kept()}, story)


@pytest.mark.parametrize("source", ["/memory/old/book", "/memory/old", "/memory"])
def test_data_that_a_foreign_container_mounts_is_not_purged_x06(source: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.storage.contents["old"] = {"book/page": b"in use"}
        scene.machine.runtime.mounted["by-hand"] = (Mount(source, "/data"),)
        result = await ordered(scene, "purge", "data.old")
        assert (result.outcome, result.code) == ("failed", "in_use") and "by-hand" in result.message
        scene.machine.runtime.mounted.clear()
        assert (await ordered(scene, "purge", "data.old")).outcome == "done"
        assert "old" not in scene.machine.storage.contents

    play({"web": service()}, story)


def test_a_purge_takes_the_passports_along() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        write(scene)
        scene.apply({})
        await until(scene.rig, lambda: scene.ours() == [])
        assert (await ordered(scene, "purge", "data.web")).outcome == "done"
        assert scene.machine.storage.passports == {} and scene.machine.journal.fact(PREFIX + "web/book") is None
        scene.machine.storage.contents["web"] = {"book/page": b"made by hand since"}
        scene.apply({"web": kept()})
        assert (await scene.settled("failed")).code == "data_not_made_here"

    play({"web": kept()}, story)
