"""Drills of backups that a command made, over memory in virtual time: the dump is loaded before anything else runs."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.adapters.runtime.memory import Behaviour
from holdfast.model.fleet import Component, Fleet, Route, Service, Snapshot, Timeouts, Volume
from holdfast.ports.prober import Verdict
from holdfast.ports.runtime import Finished
from tests.fleets.build import digest_pinned
from tests.fleets.deploying import Scene, Story, component, play
from tests.scenarios import test_backups as backups
from tests.scenarios.test_backups import stored, write
from tests.scenarios.test_drills import calls, drilled, fleet, prober, scratch, tidied

SNAPSHOT = Snapshot(method="exec: dump", restore="load --all", component="main")
OTHER = digest_pinned("other:1")


class Program:
    """The commands of the service. `started` notes what ran when the dump was loaded."""

    def __init__(self, one: Scene) -> None:
        self.one = one
        self.loads = Finished(0, "")
        self.loaded: list[bytes] = []
        self.started: list[str] = []

    def pipes(self, command: Sequence[str], read: bytes) -> tuple[Finished, bytes]:
        if command[0] == "dump":
            return Finished(0, ""), b"dump of " + self.one.machine.storage.contents["web"]["book/page"]
        assert command == ("load", "--all")
        self.loaded.append(read)
        self.started = [call.subject for call in calls(self.one, "start")]
        return self.loads, b""


def declared(snapshot: Snapshot = SNAPSHOT) -> Fleet:
    main = component(1, "main", volumes=(Volume("book", "/book", "backup"),))
    web = Service((main, Component("helper", OTHER, routes=(Route("x", 9),))), snapshot=snapshot)
    return replace(fleet(), services={"web": web}, timeouts=Timeouts(snapshot="20m"))


def play_dumps(story: Story, program: list[Program], exec_s: float = 0.0) -> None:
    async def whole(one: Scene) -> None:
        program.append(Program(one))
        main = component(1).image
        one.machine.runtime.behaviours[main] = Behaviour(pipes=program[0].pipes, exec_s=exec_s, says=("ready",))
        await one.settled()
        write(one, b"first")
        await backups.made(one, 1)
        await story(one)

    play(declared(), whole)


def test_a_dump_is_loaded_in_its_component_before_another_one_starts() -> None:
    """Another component would write into a database whose data is not there yet."""
    program: list[Program] = []

    async def story(one: Scene) -> None:
        result = await drilled(one)
        assert result.verdict == "verified" and program[0].loaded == [b"dump of first"], result
        assert [name.split("_drill-")[1].split("-")[0] for name in program[0].started] == ["main"]
        assert len(calls(one, "create")) == 2 and {"main", "helper"} == {
            call.subject.split("_drill-")[1].split("-")[0] for call in calls(one, "start")
        }
        order = [check.split(" ")[0] for check in result.checks]
        assert "the dump was loaded in main by the service's own command" in result.checks and order[0] == "restored"
        await tidied(one)

    play_dumps(story, program)


def test_a_dump_that_cannot_be_loaded_is_red_with_the_words_of_the_command() -> None:
    program: list[Program] = []

    async def story(one: Scene) -> None:
        program[0].loads = Finished(3, "ERROR: syntax error at end of input\n")
        result = await drilled(one)
        assert result.verdict == "failed" and "ended with 3: ERROR: syntax error at end of input" in result.reason
        assert result.lines == ("main: ready",), "of the component that ran; the other one was not started"
        assert "is not good" in one.findings()["drill_failed"]
        await tidied(one)
        program[0].loads = Finished(0, "")
        assert (await drilled(one)).verdict == "verified"

    play_dumps(story, program)


def test_a_component_that_is_healthy_for_a_moment_only_is_not_initialised() -> None:
    """Images of databases start their program twice: a load into the first one is cut off."""
    program: list[Program] = []

    async def story(one: Scene) -> None:
        image, began_s = one.machine.runtime.named(_name(one, "main")).image, one.rig.clock.now_s()
        again = [Verdict(False, "it starts again")] * 8
        prober(one).script(image, Verdict(True), Verdict(True), *again, Verdict(True))
        result = await drilled(one)
        assert result.verdict == "verified", result
        (load,) = calls(one, "pipe")
        started = next(call for call in calls(one, "start") if "_drill-main" in call.subject)
        assert load.at_s - started.at_s > 5.0 and load.at_s > began_s

    play_dumps(story, program)


def test_a_load_has_its_own_time_and_not_that_of_the_health_checks() -> None:
    """`timeout` of a drill is ten minutes; `snapshot` of [timeouts], here twenty, is for the command."""
    program: list[Program] = []

    async def story(one: Scene) -> None:
        result = await drilled(one)
        assert result.verdict == "verified" and result.took_s > 900, result

    play_dumps(story, program, exec_s=900.0)


def test_a_revision_that_comes_during_a_drill_does_not_change_how_the_backup_is_brought_back() -> None:
    """A node that only observes declares nothing: without the load an empty database would be called proven."""
    program: list[Program] = []

    async def story(one: Scene) -> None:
        one.machine.runtime.behaviours[component(1).image] = Behaviour(pipes=program[0].pipes, start_s=20.0)
        order = asyncio.ensure_future(drilled(one))
        await asyncio.sleep(10)
        assert len(calls(one, "create")) == 2 and not calls(one, "pipe")
        nodes = declared().nodes
        one.apply(replace(declared(), nodes={"w1": replace(nodes["w1"], reconcile="observe")}))
        await asyncio.sleep(60)
        order.cancel()
        await asyncio.wait([order])
        assert program[0].loaded == [b"dump of first"]

    play_dumps(story, program)


def test_a_component_that_does_not_serve_cannot_load_and_nothing_is_known() -> None:
    program: list[Program] = []

    async def story(one: Scene) -> None:
        (first,) = stored(one)
        found = backups.keeper_of(one)._declared.found
        found["web"] = replace(found["web"], component="gone")
        result = await drilled(one, backup=first.digest)
        assert result.verdict == "inconclusive" and "serves without its component gone" in result.reason, result
        del found["web"]
        result = await drilled(one, backup=first.digest)
        assert result.verdict == "inconclusive" and "is not backed up on this node any more" in result.reason, result
        assert not scratch(one).contents and not calls(one, "start")

    play_dumps(story, program)


def _name(one: Scene, component: str) -> str:
    return next(each.name for each in one.ours() if each.component == component)
