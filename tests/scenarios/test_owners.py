"""A hub and an agent over memory: a new volume begins with what its image has (N13), and a directory that an image
declares as a volume has to be answered for (N14)."""

import asyncio
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.adapters.runtime.memory import Directory, Image
from holdfast.adapters.storage.directory import DirectoryStorage
from holdfast.agent.services.data.passports import PREFIX
from holdfast.errors import Failed, TryLater
from holdfast.gate.containers import MADE
from holdfast.model.fleet import Hooks, Service, Volume
from holdfast.model.passport import Passport
from holdfast.ports.allowed import Allowed
from holdfast.ports.prober import Verdict
from holdfast.ports.runtime import CreateContainer, Finished
from tests.fleets.agents import until
from tests.fleets.build import ALICE_SIGNER, digest_pinned
from tests.fleets.deploying import Scene, component, image, play, service
from tests.fleets.raid import Raid, fleet, raided
from tests.scenarios.test_restored_checkpoints import ordered

DATA = Volume("book", "/data", "none")
SEED = Directory({"seed": b"from the image"}, (1000, 1001), 0o750)
BAD = Verdict(False, "answered 500")


def kept(version: int = 1, volume: Volume = DATA, **changed: Any) -> Service:
    return service(version, volumes=(volume,), **changed)


def publish(scene: Scene, *versions: int, directory: Directory | None = SEED, volumes: tuple[str, ...] = ()) -> None:
    for version in versions:
        found = {"/data": directory} if directory is not None else {}
        scene.machine.runtime.images[image(version)] = Image(volumes=volumes, directories=found)


def book(scene: Scene) -> dict[str, bytes]:
    files = scene.machine.storage.contents.get("web", {})
    return {name: text for name, text in files.items() if name.startswith("book") and name != "book/"}


def owner(scene: Scene) -> str:
    return scene.machine.storage.owners.get("web/book", "0:0")


def passport(scene: Scene) -> Passport:
    text = scene.machine.journal.fact(PREFIX + "web/book")
    assert text is not None
    return msgspec.json.decode(text, type=Passport)


def test_a_new_volume_takes_owner_mode_and_content_of_the_image_n13() -> None:
    async def story(scene: Scene) -> None:
        publish(scene, 1, 2)
        await scene.settled()
        assert book(scene) == {"book/seed": b"from the image"}
        assert owner(scene) == "1000:1001" and scene.machine.storage.modes["web/book"] == 0o750
        assert not passport(scene).is_new and scene.machine.storage.copies == {}, "no program has had it before"
        scene.machine.storage.contents["web"]["book/page"] = b"written"
        del scene.machine.storage.contents["web"]["book/seed"]
        scene.apply({"web": kept(2)})
        await scene.settled()
        assert book(scene) == {"book/page": b"written"}, "only a new volume is filled"
        assert len(scene.verbs("image_directory")) == 1

    play({"web": kept()}, story)


def test_an_image_without_the_directory_leaves_the_volume_empty_and_owned_by_root_n13() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        assert book(scene) == {} and owner(scene) == "0:0"

    play({"web": kept()}, story)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_agent_that_dies_while_it_fills_a_volume_fills_it_again_n13(when: Any) -> None:
    """Before: nothing is there yet. After: all of it is, and the passport still says that the volume is new."""

    async def story(scene: Scene) -> None:
        publish(scene, 1)
        scene.machine.runtime.cut("image_directory", when=when, trouble=TryLater("cut", remedy="wait", code="cut"))
        await until(scene.rig, lambda: scene.verbs("image_directory") != [])
        assert passport(scene).is_new and scene.verbs("start") == []
        await scene.kill()
        assert book(scene) == ({} if when == "before" else {"book/seed": b"from the image"})
        scene.start()
        await scene.settled()
        assert book(scene) == {"book/seed": b"from the image"} and owner(scene) == "1000:1001"
        assert not passport(scene).is_new

    play({"web": kept()}, story)


def test_what_reads_an_image_has_a_name_of_its_own_in_the_journal_n13() -> None:
    """A hook of the same name would start what a killed agent left of it: the command of the service."""

    async def story(scene: Scene) -> None:
        publish(scene, 1)
        await scene.settled()
        (reader,) = [call.subject for call in scene.machine.runtime.calls if call.verb == "image_directory"]
        ran = {call.subject for call in scene.machine.runtime.calls if call.verb == "run"}
        assert len(ran) == 2 and reader not in ran
        assert scene.machine.journal.made_by(MADE + reader) is not None

    play({"web": kept(hooks=Hooks(("true",), ("true",)))}, story)


def test_what_does_not_fit_fails_the_deployment_and_leaves_the_volume_new_n13() -> None:
    async def story(scene: Scene) -> None:
        publish(scene, 1)
        scene.machine.storage.troubles = [Failed("no space", remedy="free space", code="no_space")]
        state = await scene.settled("failed")
        assert state.code == "no_space" and book(scene) == {} and passport(scene).is_new
        assert scene.verbs("start") == []

    play({"web": kept()}, story)


def test_an_existing_directory_is_left_as_it_is_n13() -> None:
    """An operator made it and gave it to somebody: the image does not take it back."""

    async def story(scene: Scene) -> None:
        publish(scene, 1)
        scene.machine.storage.contents["web"] = {"book/": b""}
        scene.machine.storage.owners["web/book"] = "7:7"
        await scene.settled()
        assert book(scene) == {} and owner(scene) == "7:7"

    play({"web": kept()}, story)


# ---- owner and user


def owned(by: str, version: int = 1, **changed: Any) -> Service:
    return kept(version, msgspec.structs.replace(DATA, owner=by), **changed)


def test_another_owner_that_is_declared_while_the_agent_is_down_has_the_volume_that_was_just_filled_n13() -> None:
    """The agent died after it had filled the volume and before it wrote that down."""

    async def story(scene: Scene) -> None:
        publish(scene, 1)
        scene.machine.runtime.cut("image_directory", when="after", trouble=TryLater("cut", remedy="wait", code="cut"))
        await until(scene.rig, lambda: book(scene) != {})
        await scene.kill()
        assert passport(scene).is_new and owner(scene) == "33:33"
        scene.apply({"web": owned("44:44")})
        scene.start()
        await scene.settled()
        assert owner(scene) == "44:44" and book(scene) == {"book/seed": b"from the image"}

    play({"web": owned("33:33")}, story)


@pytest.mark.parametrize("directory", [SEED, None])
def test_a_declared_owner_has_the_whole_new_volume_n13(directory: Directory | None) -> None:
    async def story(scene: Scene) -> None:
        publish(scene, 1, directory=directory)
        await scene.settled()
        assert owner(scene) == "33:33" and passport(scene).owner == "33:33"

    play({"web": owned("33:33")}, story)


def test_another_owner_is_given_the_data_after_a_checkpoint_and_once_n13() -> None:
    """The operator of this scene has grade destroy."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.storage.contents["web"]["book/page"] = b"data"
        scene.apply({"web": owned("33:33")})
        state = await scene.settled()
        names = [step.name for step in state.steps]
        assert names.index("checkpoint main") < names.index("start main 0")
        assert owner(scene) == "33:33" and book(scene) == {"book/page": b"data"}
        scene.machine.storage.owners["web/book"] = "99:99"  # the program gave it to its own user
        scene.machine.runtime.crash(scene.one().id, 0)
        await until(scene.rig, lambda: scene.one().running)
        assert owner(scene) == "99:99", "what a program does with its data is its own matter"

    play({"web": kept()}, story)


@pytest.mark.parametrize("then", ["start", "hold"])
def test_after_a_restore_a_program_keeps_the_owner_that_it_gave_its_data_n13(then: str) -> None:
    """The declared owner was given before the checkpoint already. Without an approval the service would not start."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.storage.contents["web"]["book/page"] = b"1"
        scene.machine.storage.owners["web/book"] = "99:99"  # the program gave it to its own user
        scene.apply({"web": owned("33:33", 2)})
        await scene.settled()
        (found,) = scene.machine.built.services.section().checkpoints
        result = await ordered(scene, "restore-checkpoint", "data.web", checkpoint=found.id, then=then)
        assert result.outcome == "done"
        scene.apply({"web": owned("33:33")})
        await scene.settled()
        assert scene.one().running and owner(scene) == "99:99" and passport(scene).owner == "33:33"

    play({"web": owned("33:33")}, story)


def test_after_a_restore_of_data_of_another_owner_the_declared_one_has_it_n13() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.storage.contents["web"]["book/page"] = b"1"
        scene.apply({"web": owned("44:44", 2)})
        await scene.settled()
        scene.machine.storage.owners["web/book"] = "33:33"  # as the checkpoint has it
        (found,) = scene.machine.built.services.section().checkpoints
        result = await ordered(scene, "restore-checkpoint", "data.web", checkpoint=found.id, then="start")
        assert result.outcome == "done" and owner(scene) == "44:44" and passport(scene).owner == "44:44"

    play({"web": owned("33:33")}, story)


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_was_given_by_half_is_given_back_whole_n13(monkeypatch: pytest.MonkeyPatch, is_killed: bool) -> None:
    """The directory itself comes last, so that it still has the owner of before."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        storage, given = scene.machine.storage, list[str]()
        storage.contents["web"]["book/page"] = b"data"

        def own(service: str, name: str, owner: str, allowed: Allowed) -> None:
            given.append(owner)
            if owner == "44:44":
                family = TryLater if is_killed else Failed
                raise family("cannot use /srv: page: Operation not permitted", remedy="look at it", code="disk_failed")

        monkeypatch.setattr(storage, "own", own)
        scene.apply({"web": owned("44:44", 2)})
        if is_killed:
            await until(scene.rig, lambda: given != [])
            await scene.kill()
            scene.apply({"web": owned("33:33")})
            scene.start()
            await scene.settled()
        else:
            await scene.settled("failed")
        assert given[0] == "44:44" and given[-1] == "33:33" and scene.one().running
        assert passport(scene).owner == "33:33"

    play({"web": owned("33:33")}, story)


def test_a_deployment_that_fails_goes_back_to_the_owner_before_n13() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.storage.contents["web"]["book/page"] = b"data"
        scene.machine.prober.script(digest_pinned("web:2"), *[BAD] * 99)
        scene.apply({"web": owned("44:44", 2)})
        await scene.settled("failed")
        assert owner(scene) == "33:33" and scene.one().running

    play({"web": owned("33:33")}, story)


def test_a_component_runs_as_its_user_and_so_do_its_hooks_n13() -> None:
    async def story(scene: Scene) -> None:
        runtime, users = scene.machine.runtime, dict[tuple[str, ...], str]()
        really = runtime.run

        async def run(made: CreateContainer, timeout_s: float, allowed: Allowed) -> Finished:
            users[made.spec.command] = made.spec.user
            return await really(made, timeout_s, allowed)

        runtime.run = run  # type: ignore[method-assign]
        await scene.settled()
        assert runtime.made(scene.one().id).spec.user == "1000:1000"
        assert users == {("migrate",): "1000:1000", ("warm",): "1000:1000"}

    play({"web": service(user="1000:1000", hooks=Hooks(("migrate",), ("warm",)))}, story)


def on_disk(raid: Raid, root: Path) -> Path:
    """The node goes on with this directory; in it is data that was made by hand."""
    raid.machine.storage, raid.machine.data_dir = DirectoryStorage(str(root), "w1"), str(root)  # type: ignore[assignment]
    page = root / "git" / "book" / "page"
    page.parent.mkdir(parents=True)
    page.write_text("the only copy")
    return page


def owned_by(page: Path) -> set[str]:
    return {f"{about.st_uid}:{about.st_gid}" for about in (page.stat(), page.parent.stat())}


def test_only_a_signature_of_grade_destroy_or_a_person_on_the_node_gives_data_to_another_owner(tmp_path: Path) -> None:
    """A key of grade apply declares an owner for data that an operator adopted; the remedy works as printed."""

    async def attack(raid: Raid) -> bool:
        await raid.scene.kill()
        page = on_disk(raid, tmp_path)
        raid.scene.start()
        await raid.signs(git=owned("33:33"))
        state = raid.scene.state("git")
        assert state is not None and state.code == "data_not_made_here"
        await raid.sends(raid.order("adopt", "data.git", ALICE_SIGNER))
        state = raid.scene.state("git")
        assert state is not None and state.code == "owner_not_approved" and "grade destroy" in state.message
        assert owned_by(page) == {"0:0"}
        chown, _, then = state.remedy.partition("yourself: ")[2].partition(";")
        subprocess.run(chown, shell=True, check=True)
        assert owned_by(page) == {"33:33"} and "holdfast restart git" in then
        await raid.sends(raid.order("restart", "service.git"))
        assert raid.serves("git") and owned_by(page) == {"33:33"}
        await raid.signs(git=owned("44:44"))
        assert not raid.serves("git") and owned_by(page) == {"33:33"}
        await raid.alice(git=owned("55:55"))
        assert raid.serves("git") and owned_by(page) == {"55:55"}
        return True

    async def story(scene: Scene) -> None:
        assert await raided(scene, fleet({"web": service()}), attack)

    play(fleet({"web": service()}), story)


# ---- undeclared volumes


def test_a_volume_of_the_image_that_the_file_does_not_name_is_a_finding_until_it_is_answered_n14() -> None:
    async def story(scene: Scene) -> None:
        publish(scene, 1, volumes=("/data", "/cache"))
        await scene.settled()
        assert scene.agent is not None
        (found,) = [one for one in scene.agent.findings.all() if one.code == "undeclared_volume"]
        assert "/cache (component main), /data (component main)" in found.message and found.address == "service.web"
        assert 'scratch = ["/cache"]' in found.remedy and "[[components.volumes]]" in found.remedy
        before = scene.one()
        scene.apply({"web": service(scratch=("/cache", "/data"))})
        await scene.settled()
        assert "undeclared_volume" not in scene.findings() and scene.one() == before, "an answer restarts nothing"
        scene.apply({"web": service(scratch=("/cache",))})
        await until(scene.rig, lambda: "/data" in scene.findings().get("undeclared_volume", ""))
        scene.apply({"web": kept(scratch=("/cache",))})
        await scene.settled()
        assert "undeclared_volume" not in scene.findings()

    play({"web": service()}, story)


def test_the_finding_stays_while_another_image_is_pulled_and_an_image_that_vanishes_stops_nothing_n14() -> None:
    async def story(scene: Scene) -> None:
        runtime = scene.machine.runtime
        publish(scene, 1, volumes=("/data",))
        await scene.settled()
        assert "/data (component main), /data (component side)" in scene.findings()["undeclared_volume"]
        runtime.images[image(2)] = Image(volumes=("/data",), pull_s=20.0)
        scene.apply({"web": service(2)})
        await until(scene.rig, lambda: len(scene.verbs("pull")) == 2)
        await asyncio.sleep(5)
        assert "undeclared_volume" in scene.findings()
        gone = Failed("it was pruned meanwhile", remedy="wait", code="image_missing")
        runtime.cut("image_volumes", when="before", trouble=gone)
        await scene.settled()

    play({"web": Service((component(), component(1, "side")))}, story)


def test_what_runs_already_goes_on_and_a_service_that_leaves_takes_its_finding_along_n14() -> None:
    """An agent that is upgraded finds images with undeclared volumes running."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        before = scene.one()
        assert "undeclared_volume" not in scene.findings()
        await scene.kill()
        publish(scene, 1, volumes=("/data",))
        scene.start()
        await until(scene.rig, lambda: "undeclared_volume" in scene.findings())
        assert scene.one() == before
        scene.apply({})
        await until(scene.rig, lambda: scene.ours() == [] and "undeclared_volume" not in scene.findings())

    play({"web": service()}, story)


def test_a_podman_that_cannot_tell_of_volumes_holds_nothing_up_n14() -> None:
    """The finding is for people: for its sake no container stays down."""

    async def story(scene: Scene) -> None:
        publish(scene, 1, volumes=("/data",))
        for _ in range(1000):
            scene.machine.runtime.cut("image_volumes")
        await scene.settled()
        scene.machine.runtime.crash(scene.one().id, 1)
        await until(scene.rig, lambda: scene.one().running)
        assert "undeclared_volume" not in scene.findings()
        scene.machine.runtime._cuts.clear()
        await until(scene.rig, lambda: "undeclared_volume" in scene.findings())

    play({"web": service()}, story)


def test_a_hostile_image_says_little_in_its_finding_and_its_remedy_is_valid_toml_n14() -> None:
    async def story(scene: Scene) -> None:
        hostile = ('/!"] = "evil', *(f"/{number:04}{'y' * 1000}" for number in range(5000)))
        publish(scene, 1, volumes=hostile)
        await scene.settled()
        assert scene.agent is not None
        (found,) = [one for one in scene.agent.findings.all() if one.code == "undeclared_volume"]
        assert len(found.message) < 1000 and len(found.remedy) < 2000 and " and 95 more; what" in found.message
        scratch = found.remedy.partition("may be lost, ")[2].partition("; then")[0]
        assert tomllib.loads(scratch) == {"scratch": [hostile[0]]}
        assert 'name = "data-2"' in found.remedy, "the service has a volume of that name already"

    play({"web": kept(volume=Volume("data", "/mine", "none"))}, story)
