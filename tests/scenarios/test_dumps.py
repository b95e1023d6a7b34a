"""Backups that a command of the service makes, over memory and in virtual time, and their way back (M-91, M-98)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.prober.memory import MemoryProber
from holdfast.adapters.runtime.memory import Behaviour
from holdfast.model import dump
from holdfast.model.container import LABEL_FLEET, LABEL_INFRASTRUCTURE, LABEL_SERVICE, Container
from holdfast.model.fleet import Fleet, Snapshot, Timeouts, Volume
from holdfast.ports.prober import Snapshotted, Verdict
from holdfast.ports.runtime import CreateContainer, Finished
from holdfast.ports.storage import Receivable
from tests.fleets.agents import until
from tests.fleets.build import small_fleet
from tests.fleets.deploying import Scene, image, play, service
from tests.fleets.desks import OPERATOR
from tests.scenarios.test_backups import archiver, made, ordered, state, stored

VOLUMES = (
    Volume("book", "/book", "backup"),
    Volume("art", "/art", "backup"),
    Volume("cache", "/cache", "none"),
)
SNAPSHOT = Snapshot(method="exec: dump 'all of it'", restore="load --all", volume="book")
FIRST = b"dump of first"


class Program:
    """What the commands of the service do. `dumped` and `loads` answer the end of the next ones; `loading` is the
    container that a load ran in."""

    def __init__(self, one: Scene) -> None:
        self.one = one
        self.dumped: tuple[Finished, bytes] | None = None
        self.loads = Finished(0, "")
        self.commands: list[tuple[str, ...]] = []
        self.loading: CreateContainer | None = None
        self.is_ill = False  # after the load

    def pipes(self, command: Sequence[str], read: bytes) -> tuple[Finished, bytes]:
        self.commands.append(tuple(command))
        if command[0] != "load":
            page = self.one.machine.storage.contents["web"].get("book/page", b"")
            return self.dumped or (Finished(0, ""), b"dump of " + page)
        runtime = self.one.machine.runtime
        self.loading = runtime.made(runtime.named(load_name(self.one)).id)
        if self.is_ill:
            prober = self.one.machine.drills.prober
            assert isinstance(prober, MemoryProber)
            prober.script(load_name(self.one), Verdict(False, "its tables are gone"))
        if self.loads.code == 0:
            (incoming,) = self.one.machine.storage.incoming.values()
            incoming["book/page"] = read.removeprefix(b"dump of ")
            incoming["cache/made"] = b"by the load"
        return self.loads, b""


def load_name(one: Scene) -> str:
    return f"hf-{one.machine.membership.fleet[:6]}-web_load"


def fleet(snapshot: Snapshot = SNAPSHOT) -> Fleet:
    declared = replace(service(1, volumes=VOLUMES), snapshot=snapshot)
    return replace(small_fleet({"web": declared}, nodes=("w1",)), timeouts=Timeouts(snapshot="1m"))


def play_dumps(story: Any, declared: Fleet | None = None, **behaviour: Any) -> None:
    """The service runs and has data, and its first backup is made."""

    async def whole(one: Scene) -> None:
        program = Program(one)
        one.machine.runtime.behaviours[image(1)] = Behaviour(pipes=program.pipes, **behaviour)
        await one.settled()
        write(one, b"first")
        await made(one, 1)
        await story(one, program)

    play(declared or fleet(), whole)


def write(one: Scene, text: bytes) -> None:
    files = {"book/page": text, "art/picture": b"picture", "cache/x": b"of no value"}
    one.machine.storage.contents.setdefault("web", {}).update(files)


async def answered(one: Scene, action: str, **given: str) -> Any:
    counter = one.machine.journal.highest_counter() + 1
    id = await one.rig.desk.submit(OPERATOR, one.rig.order("w1", counter, action, 900, "data.web", **given))
    await until(one.rig, lambda: one.machine.journal.result_of(id) is not None, 600.0)
    return one.machine.journal.result_of(id)


def page(one: Scene) -> bytes:
    return one.machine.storage.contents["web"]["book/page"]


async def names(one: Scene) -> list[str]:
    """Of containers, and of networks beside the service."""
    networks = [name for name in one.machine.runtime.networks if name.endswith("_load")]
    return [*(container.name for container in await one.machine.runtime.containers()), *networks]


async def killed(one: Scene) -> None:
    """As by kill -9: on its way out the agent removes and forgets nothing."""

    async def ignored(*words: object, **more: object) -> None:
        pass

    machine = one.machine
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.runtime, "stop", ignored)
        patch.setattr(machine.runtime, "remove", ignored)
        patch.setattr(machine.journal, "forget_made", lambda path: None)
        await one.kill()


# ---- there


def test_what_a_command_writes_is_in_the_backup_in_the_place_of_the_volume() -> None:
    async def story(one: Scene, program: Program) -> None:
        job = archiver(one).jobs[-1]
        assert program.commands == [("dump", "all of it")], "taken apart as a shell does"
        assert job.header.dump == dump.NAME and job.header.volumes == ("art",) and job.rules.volumes == ("art",)
        assert {"book", "cache"} <= set(job.rules.exclude), "no file of the volume, whatever its name is"
        (first,) = stored(one)
        assert first.receipt.method == SNAPSHOT.method and first.receipt.volumes == ("art",)
        assert one.machine.runtime.files == {}, "nothing of it is left on the node"

    play_dumps(story)


@pytest.mark.parametrize(
    ("dumped", "why"),
    [
        ((Finished(3, "no such table\n"), b"half"), "ended with 3: no such table"),
        ((Finished(0, "asleep\n"), b""), "wrote nothing to its standard output: asleep"),
        ((Finished(137, ""), b"half"), "ended with 137"),
    ],
)
def test_a_command_that_fails_is_no_backup_and_no_receipt_is_signed(dumped: tuple[Finished, bytes], why: str) -> None:
    async def story(one: Scene, program: Program) -> None:
        program.dumped = dumped
        order = await ordered(one, "backup")
        await until(one.rig, lambda: order in state(one).failed_by)
        assert why in one.findings()["backup_failed"] and len(stored(one)) == 1
        program.dumped = None
        await ordered(one, "backup")
        assert len(await made(one, 2)) == 2 and "backup_failed" not in one.findings()

    play_dumps(story)


def test_a_dump_of_postgres_that_was_cut_off_is_no_backup() -> None:
    async def story(one: Scene, program: Program) -> None:
        program.dumped = Finished(0, ""), b"-- half of it"
        order = await ordered(one, "backup")
        await until(one.rig, lambda: order in state(one).failed_by)
        assert "the dump is not whole" in one.findings()["backup_failed"] and len(stored(one)) == 1

    async def whole(one: Scene) -> None:
        program = Program(one)
        program.dumped = Finished(0, ""), b"x\n-- PostgreSQL database cluster dump complete\n--\n\n"
        one.machine.runtime.behaviours[image(1)] = Behaviour(pipes=program.pipes)
        await one.settled()
        await made(one, 1)
        await story(one, program)

    play(fleet(Snapshot(method="postgres", volume="book")), whole)


def test_a_command_that_takes_longer_than_timeouts_snapshot_is_no_backup() -> None:
    async def whole(one: Scene) -> None:
        one.machine.runtime.behaviours[image(1)] = Behaviour(exec_s=61.0)
        await one.settled()
        await until(one.rig, lambda: "backup_failed" in one.findings(), 600.0)
        assert "ended with 124" in one.findings()["backup_failed"] and not stored(one)

    play(fleet(), whole)


def test_without_a_running_container_its_files_are_copied_m98() -> None:
    async def story(one: Scene, program: Program) -> None:
        await ordered(one, "stop")
        write(one, b"at rest")
        await ordered(one, "backup")
        _, second = await made(one, 2)
        job = archiver(one).jobs[-1]
        assert (job.header.method, job.header.dump, job.vacuum) == ("copy", "", True)
        assert job.rules.volumes == ("art", "book") and "book" not in job.rules.exclude
        assert second.receipt.method == "copy" and second.receipt.volumes == ("art", "book")
        write(one, b"damaged")
        result = await answered(one, "restore", backup=second.digest)
        assert result.outcome == "done" and page(one) == b"at rest" and len(program.commands) == 1

    play_dumps(story)


def test_a_copy_of_files_that_a_program_began_to_write_to_meanwhile_is_no_backup_m98() -> None:
    async def story(one: Scene, program: Program) -> None:
        await ordered(one, "stop")
        runtime = one.machine.runtime
        (stopped,) = [kept for kept in runtime._kept.values() if kept.seen.service == "web"]

        async def started() -> None:
            stopped.seen = replace(stopped.seen, running=True)  # by hand, past the agent

        archiver(one).gate = lambda: asyncio.ensure_future(started())
        order = await ordered(one, "backup")
        await until(one.rig, lambda: order in state(one).failed_by)
        assert "was started meanwhile" in one.findings()["backup_failed"] and len(stored(one)) == 1

    play_dumps(story)


# ---- and back


def test_a_dump_is_loaded_beside_the_service_and_then_becomes_its_data() -> None:
    async def story(one: Scene, program: Program) -> None:
        (first,) = stored(one)
        write(one, b"damaged")
        result = await answered(one, "restore", backup=first.digest)
        assert result.outcome == "done", result
        await one.settled()
        assert program.commands[-1] == ("load", "--all")
        files = one.machine.storage.contents["web"]
        assert files["book/page"] == b"first" and files["art/picture"] == b"picture"
        assert files["cache/x"] == b"of no value" and "cache/made" not in files, "what backups do not hold stays"
        assert dump.NAME not in files and one.one().running
        kept = [files["book/page"] for _, files in one.machine.storage.copies.values()]
        assert b"damaged" in kept, "the data of before is a checkpoint"
        assert await names(one) == [one.one().name], "the container that loaded it is gone"
        assert program.loading is not None
        loaded = program.loading
        assert (loaded.publish, loaded.spec.ports, loaded.spec.network, loaded.spec.exposed) == (
            (),
            (),
            load_name(one),
            False,
        )
        own = {mount.target: mount.read_only for mount in loaded.spec.mounts if "/.incoming-" in mount.source}
        assert own == {"/book": False, "/art": False, "/cache": False}, "no volume of the service itself"

    play_dumps(story)


@pytest.mark.parametrize("trouble", ["load", "start", "ends", "ill"])
def test_a_way_back_that_fails_leaves_the_service_and_its_data_alone(trouble: str) -> None:
    async def story(one: Scene, program: Program) -> None:
        (first,) = stored(one)
        write(one, b"of now")
        if trouble == "load":
            program.loads = Finished(1, "syntax error\n")
        elif trouble == "ill":
            program.is_ill = True
        elif trouble == "start":
            one.machine.runtime.behaviours[image(1)] = Behaviour(start_trouble="no such program")
        else:
            one.machine.runtime.behaviours[image(1)] = Behaviour(exit_after_s=1.0, exit_code=1, says=("no room",))
        before = one.one()
        result = await answered(one, "restore", backup=first.digest)
        assert result.outcome == "failed" and result.remedy
        words = {"load": "ended with 1: syntax error", "start": "no such program", "ends": "ended"}
        words["ill"] = "was not healthy within 60 s: its tables are gone"
        assert words[trouble] in result.message, result
        assert page(one) == b"of now" and not one.machine.storage.copies and not one.machine.storage.incoming
        assert await names(one) == [before.name] and one.one().running

    play_dumps(story)


@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.3, 1.0, 2.9, 3.1, 3.3, 4.0])
def test_a_kill_at_any_step_of_the_way_back_ends_with_the_restored_data(after_s: float) -> None:
    async def story(one: Scene, program: Program) -> None:
        (first,) = stored(one)
        write(one, b"damaged")
        counter = one.machine.journal.highest_counter() + 1
        signed = one.rig.order("w1", counter, "restore", 900, "data.web", backup=first.digest)
        storage, runtime = one.machine.storage, one.machine.runtime
        receive = storage.receive

        def emptied(proof: Receivable) -> str:
            """Its directory: no container of a run that was cut writes there any more."""
            assert load_name(one) not in {kept.seen.name for kept in runtime._kept.values()}
            return receive(proof)

        storage.receive = emptied  # type: ignore[method-assign]
        id = await one.rig.desk.submit(OPERATOR, signed)
        for _ in range(2):
            await asyncio.sleep(after_s)
            await killed(one)
            one.start()
        await until(one.rig, lambda: one.machine.journal.result_of(id) is not None, 600.0)
        found = one.machine.journal.result_of(id)
        assert found is not None and found.outcome == "done", found
        await one.settled()
        assert page(one) == b"first" and await names(one) == [one.one().name]

    play_dumps(story, exec_s=0.2)


def test_a_container_that_reads_the_image_for_a_way_back_does_not_outlive_its_agent() -> None:
    async def story(one: Scene, program: Program) -> None:
        (first,) = stored(one)
        counter = one.machine.journal.highest_counter() + 1
        signed = one.rig.order("w1", counter, "restore", 900, "data.web", backup=first.digest)
        id = await one.rig.desk.submit(OPERATOR, signed)
        await until(one.rig, lambda: any(call.verb == "image_directory" for call in one.machine.runtime.calls))
        await killed(one)
        labels = {LABEL_FLEET: one.machine.membership.fleet, LABEL_SERVICE: "web", LABEL_INFRASTRUCTURE: "hook"}
        one.machine.runtime.place(Container("e" * 64, f"{load_name(one)}-image", "created", False, labels))
        one.start()
        await until(one.rig, lambda: one.machine.journal.result_of(id) is not None, 600.0)
        assert await names(one) == [one.one().name]

    play_dumps(story, exec_s=0.2)


def test_without_its_program_a_dump_is_not_restored_and_the_error_says_what_to_do() -> None:
    async def story(one: Scene, program: Program) -> None:
        (first,) = stored(one)
        one.apply({})
        await asyncio.sleep(60)
        result = await answered(one, "restore", backup=first.digest)
        assert (result.outcome, result.code) == ("failed", "not_deployed") and "holdfast deploy web" in result.remedy
        assert not one.machine.storage.copies

    play_dumps(story)


def test_a_dump_needs_the_command_that_loads_it_also_later() -> None:
    async def story(one: Scene, program: Program) -> None:
        (first,) = stored(one)
        one.apply(fleet(Snapshot(method="full")))
        await one.settled()
        result = await answered(one, "restore", backup=first.digest)
        assert (result.outcome, result.code) == ("failed", "no_way_back") and "restore = COMMAND" in result.remedy

    play_dumps(story)


# ---- services that make their files ready


@pytest.mark.parametrize("code", [0, 2])
def test_a_service_makes_its_files_ready_by_its_own_command_and_then_they_are_copied_m91(code: int) -> None:
    async def whole(one: Scene) -> None:
        program = Program(one)
        program.dumped = Finished(code, "no room\n"), b""
        one.machine.runtime.behaviours[image(1)] = Behaviour(pipes=program.pipes)
        await one.settled()
        if code:
            await until(one.rig, lambda: "backup_failed" in one.findings(), 600.0)
            assert "`web snapshot` ended with 2: no room" in one.findings()["backup_failed"] and not stored(one)
            return
        (first,) = await made(one, 1)
        job = archiver(one).jobs[-1]
        assert program.commands == [("web", "snapshot")] and first.receipt.method == "cli"
        assert not job.vacuum and job.rules.volumes == ("art", "book") and not job.header.dump, "M-93"
        write(one, b"damaged")
        result = await answered(one, "restore", backup=first.digest)
        assert result.outcome == "done" and program.commands[1:] == [], "no command is declared: the files are the data"

    play(fleet(Snapshot(method="cli")), whole)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Snapshotted(True, path="/book/page"), ""),
        (Snapshotted(False, "locked"), "made no snapshot: locked"),
        (Snapshotted(True, path="/etc/passwd"), "no file of a volume"),
        (Snapshotted(True, path="/book/../../etc/passwd"), "no file of a volume"),
        (Snapshotted(True, path="/cache/x"), "no file of a volume"),
        (Snapshotted(True, path="/book/gone"), "no file of a volume"),
    ],
)
def test_a_service_is_asked_over_grpc_and_names_a_file_of_its_volumes_m_50(answer: Snapshotted, why: str) -> None:
    async def whole(one: Scene) -> None:
        program = Program(one)
        one.machine.runtime.behaviours[image(1)] = Behaviour(pipes=program.pipes)
        await one.settled()
        write(one, b"first")
        one.machine.prober.snapshots[one.one().image] = answer
        order = await ordered(one, "backup")
        if why:
            await until(one.rig, lambda: order in state(one).failed_by)
            assert why in one.findings()["backup_failed"] and not stored(one)
            return
        (first,) = await made(one, 1)
        assert archiver(one).jobs[-1].header.dump == "book/page" and first.receipt.method == "grpc"
        write(one, b"damaged")
        result = await answered(one, "restore", backup=first.digest)
        assert result.outcome == "done" and program.commands == [("load", "--all")], result
        assert page(one) == b"first", "the file that it named is the input of the command, and stays"

    play(fleet(Snapshot(method="grpc", restore="load --all")), whole)
