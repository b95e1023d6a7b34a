"""Images, containers, disks and stores that are not as they should be: what an agent does, and what it says of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.runtime.memory import Behaviour, Image, MemoryRuntime
from holdfast.agent.orders.log_feed import LogFeed
from holdfast.agent.services.door import Ground
from holdfast.errors import Failed, NotPermitted, TryLater
from holdfast.gate.acts import Act
from holdfast.hub.alerts import service_watch
from holdfast.model.checkin import REPORT_BYTES_MAX
from holdfast.model.container import Container
from holdfast.model.deployment import ServiceState
from holdfast.model.fleet import Hooks, Service, Volume
from holdfast.model.stream import CaughtUp, LogsWanted
from holdfast.ports.allowed import Allowed
from holdfast.ports.prober import Verdict
from holdfast.ports.runtime import LogLine
from tests.fleets.agents import services_of, until
from tests.fleets.deploying import Scene, component, image, play, service

DATA = Volume("files", "/data", "none")


def full(*given: object, **named: object) -> None:
    raise Failed("no space is left on the disk", remedy="free some: df", code="no_space")


def test_a_link_that_the_old_one_left_in_place_of_a_volume_is_not_mounted() -> None:
    """It is made while the old one still runs, and looked at again before it is started."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        old, storage = scene.one(), scene.machine.storage
        volume, asked = storage.volume, 0

        def linked(owner: str, name: str, allowed: Allowed) -> str:
            nonlocal asked
            asked += 1
            if asked > 1:
                raise NotPermitted(f"{owner}/{name} is a link", remedy="look at it")
            return volume(owner, name, allowed)

        storage.volume = linked  # type: ignore[method-assign, assignment]
        scene.apply({"web": service(2, volumes=(DATA,))})
        await asyncio.sleep(5)
        started = [call.subject for call in scene.machine.runtime.calls if call.verb == "start"]
        assert started == [old.name], "the new one was not started"

    play({"web": service(volumes=(DATA,))}, story)


def test_a_disk_that_was_full_when_a_deployment_came_skips_none_of_its_hooks() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        assert len(scene.verbs("run")) == 1
        journal = scene.machine.journal
        set_aside = journal.set_aside

        def picky(name: str, value: bytes) -> None:
            if name.startswith("service/"):
                full()
            set_aside(name, value)

        journal.set_aside = picky  # type: ignore[method-assign]
        scene.apply({"web": service(2, hooks=Hooks(("migrate",)))})
        await asyncio.sleep(20)
        assert {one.image for one in scene.ours()} == {image(1)}, "nothing is begun that could not be written down"
        state = scene.state()
        assert state is not None and state.phase != "converged"
        journal.set_aside = set_aside  # type: ignore[method-assign]
        state = await scene.settled(at_most_s=120)
        assert state.images == (image(2),) and len(scene.verbs("run")) == 2 and state.serving_revision == 2

    play({"web": service(hooks=Hooks(("migrate",)))}, story)


def test_a_disk_that_is_full_does_not_keep_other_services_from_being_healed() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        await scene.settled(name="other")
        journal = scene.machine.journal
        set_aside = journal.set_aside
        journal.set_aside = lambda name, value: full() if name == "service/web" else set_aside(name, value)  # type: ignore[method-assign]
        scene.apply({"web": service(2), "other": service()})
        await asyncio.sleep(10)
        other = next(one for one in scene.ours() if one.service == "other")
        scene.machine.runtime.crash(other.id, 0)
        await until(scene.rig, lambda: scene.machine.runtime.named(other.name).running, 90)

    play({"web": service(), "other": service()}, story)


def test_while_the_runtime_is_away_nothing_is_called_converged() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.away = True
        await until(scene.rig, lambda: "runtime_unavailable" in scene.findings(), 60)
        await asyncio.sleep(120)
        state = scene.state()
        assert state is not None and state.phase == "settling"
        scene.machine.runtime.away = False
        await scene.settled(at_most_s=120)

    play({"web": service()}, story)


def test_a_store_that_was_wiped_is_filled_again() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        runtime = scene.machine.runtime
        runtime.here.clear()
        runtime.networks.clear()
        old = {one.id for one in scene.ours()}
        for id in old:
            runtime.vanish(id)

        def is_back() -> bool:
            now = scene.ours()
            return len(now) == 2 and all(one.running and one.id not in old for one in now)

        await until(scene.rig, is_back, 120)
        await scene.settled()

    play({"web": Service((component(1, "front"), component("b", "back")))}, story)


def test_last_words_that_nobody_can_read_do_not_keep_a_deployment_from_failing() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.machine.runtime.behaviours[image(2)] = Behaviour(exit_after_s=0.0, exit_code=1)
        scene.machine.runtime.logs = _broken  # type: ignore[method-assign]
        scene.apply({"web": service(2)})
        state = await scene.settled("failed")
        assert scene.one().running and state.serving_revision == 1

    play({"web": service()}, story)


async def _broken(id: str, tail: int | None, since_s: float, follow: bool) -> AsyncIterator[LogLine]:
    raise ValueError("a frame of 99999999 bytes")
    yield


@pytest.mark.parametrize("how", ["restart", "start"])
def test_what_does_not_become_healthy_again_is_not_called_started(how: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        assert scene.agent is not None
        scene.machine.prober.script(image(1), Verdict(False, "answered 500"))
        orders = scene.machine.built.orders
        if how == "start":
            await orders.stop("web")
        with pytest.raises(Failed, match="answered 500"):
            await getattr(orders, how)("web", Ground(Act[how.upper()]))

    play({"web": service()}, story)


@pytest.mark.parametrize("how", ["one with endless words", "very many", "last words"])
def test_no_container_can_make_its_node_fall_silent(how: str) -> None:
    """A report longer than a hub takes would be refused with the whole check-in."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        runtime = scene.machine.runtime
        if how == "one with endless words":
            labels = {"holdfast.service": "x" * REPORT_BYTES_MAX, "holdfast.fleet": "another"}
            runtime.place(Container("f" * 64, "theirs", "running", True, labels, "postgres", 77))
        elif how == "very many":
            for n in range(2000):
                runtime.place(
                    Container(f"{n:064}", f"theirs-{n}-{'x' * 200}", "running", True, image="x" * 200, pid=77)
                )
        else:
            hostile = tuple("\x01" * 300 for _ in range(20))
            many = {f"s{n}": service(2) for n in range(60)}
            runtime.behaviours[image(2)] = Behaviour(exit_after_s=0.01, exit_code=1, says=hostile)
            scene.machine.prober.script(image(2), Verdict(False, "no"))
            scene.apply({"web": service(), **many})
        await asyncio.sleep(300)
        assert scene.agent is not None and len(scene.machine.built.reporter.content) <= REPORT_BYTES_MAX
        member = scene.rig.registry.members["w1"]
        assert member.condition.status == "healthy" and member.pulse_report == member.report_digest
        assert member.report is not None and any(one.service == "web" for one in member.report.containers)
        assert any(one.code == "report_cut" for one in member.report.findings)

    play({"web": service()}, story)


def test_one_service_that_cannot_be_healed_does_not_delay_the_others() -> None:
    """Each waits for itself: whoever may deploy one service must not be able to slow down what keeps another alive."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        await scene.settled(name="other")
        runtime = scene.machine.runtime
        runtime.here.clear()
        runtime.images[image(1)] = Image(trouble=Failed("manifest unknown", remedy="push it"))
        gone = next(one for one in scene.ours() if one.service == "web")
        runtime.vanish(gone.id)
        await until(scene.rig, lambda: "service_waits" in scene.findings())
        await asyncio.sleep(300)
        assert (state := scene.state()) is not None and state.phase != "converged"
        tried = len(scene.verbs("pull"))
        other = next(one for one in scene.ours() if one.service == "other")
        runtime.crash(other.id, 0)
        await until(scene.rig, lambda: runtime.named(other.name).running, 3)
        await asyncio.sleep(300)
        assert len(scene.verbs("pull")) - tried < 40, "nor is the broken one tried more often for it"
        runtime.images[image(1)] = Image()
        await scene.settled(at_most_s=90)

    play({"web": service(), "other": service("o")}, story)


def test_what_a_container_said_reaches_logs_and_chats_as_words_only() -> None:
    state = ServiceState("web", "failed", "d", 1, step="a\x1b[2J", message="\x1b]0;x\x07\nrecovered: all is well\u202e")
    alert = service_watch._failed("web", "w1", state)
    assert alert.message.isprintable()


def test_what_waited_and_then_owes_nothing_makes_nobody_hurry() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        await scene.settled(name="other")
        runtime = scene.machine.runtime
        runtime.here.clear()
        runtime.images[image(1)] = Image(trouble=Failed("manifest unknown", remedy="push it"))
        runtime.vanish(next(one.id for one in scene.ours() if one.service == "web"))
        await until(scene.rig, lambda: "service_waits" in scene.findings())
        assert scene.agent is not None
        services_of(scene.agent).records.keep("web", replace(services_of(scene.agent).records.of("web"), held=True))
        await asyncio.sleep(120)
        looks = sum(call.verb == "containers" for call in runtime.calls)
        await asyncio.sleep(60)
        assert sum(call.verb == "containers" for call in runtime.calls) - looks < 20

    play({"web": service(), "other": service("o")}, story)


def test_a_hook_that_a_crash_left_running_is_ended_before_anybody_else_writes() -> None:
    hooks = Hooks((), ("warm",))

    async def story(scene: Scene) -> None:
        runtime = scene.machine.runtime
        runtime.behaviours[("warm",)] = Behaviour()
        await until(scene.rig, lambda: bool(scene.verbs("run")))
        await asyncio.sleep(1)
        hook = next(one for one in await runtime.containers() if one.name.endswith("-post"))
        assert scene.agent is not None
        assert all(one.component for one in services_of(scene.agent).section().containers), (
            "it is no container of the service"
        )
        await scene.kill()
        runtime.place(hook)
        runtime.behaviours[("warm",)] = Behaviour(exit_after_s=0.0)
        runtime.calls.clear()
        scene.apply({"web": service(2, volumes=(DATA,), hooks=hooks)})
        scene.start()
        await scene.settled()
        assert hook.id not in [one.id for one in await runtime.containers()]
        verbs = scene.verbs("start", "stop")
        assert verbs.index(f"stop {hook.name}") < verbs.index(f"start {scene.one().name}")

    play({"web": service(volumes=(DATA,), hooks=hooks)}, story)


@pytest.mark.parametrize("agrees", [True, False])
def test_a_clock_years_ahead_makes_no_checkpoint_old(agrees: bool) -> None:
    """W16: what is older than seven days goes, but the newest, by a clock that the hub's agrees with."""

    async def story(scene: Scene) -> None:
        for version in (2, 3):
            await scene.settled()
            scene.machine.storage.contents["web"]["files/book"] = b"written"
            scene.apply({"web": service(version, volumes=(DATA,))})
        await scene.settled()
        kept = {one.id for one in scene.machine.storage.checkpoints()}
        newest = max(scene.machine.storage.checkpoints(), key=lambda one: one.made_s).id
        assert len(kept) == 2 and scene.agent is not None
        if agrees:
            for clock in (scene.rig.clock, scene.machine.clock):
                clock.skew_s += 8 * 86400.0
            await asyncio.sleep(90)
        else:
            ahead = scene.machine.clock.now_s
            scene.machine.clock.now_s = lambda: ahead() + 10 * 365 * 86400.0  # type: ignore[method-assign]
            await until(scene.rig, lambda: scene.agent is not None and scene.agent.time.alarm is not None)
        scene.apply({"web": service(4, volumes=(DATA,))})
        await scene.settled(at_most_s=200)
        left = {one.id for one in scene.machine.storage.checkpoints()}
        assert left & kept == {newest} if agrees else left > kept

    play({"web": service(volumes=(DATA,))}, story)


class NoHub:
    """A link at whose other end no hub answers."""

    def __getattr__(self, verb: str) -> Any:
        async def refused(*arguments: object, **more: object) -> None:
            raise TryLater(f"{verb}: no hub answers", remedy="wait")

        return refused


def test_an_agent_that_starts_with_a_wrong_clock_and_without_a_hub_prunes_no_young_checkpoint() -> None:
    async def story(scene: Scene) -> None:
        for version in (2, 3):
            await scene.settled()
            scene.machine.storage.contents["web"]["files/book"] = b"written"
            scene.apply({"web": service(version, volumes=(DATA,))})
        await scene.settled()
        kept = {one.id for one in scene.machine.storage.checkpoints()}
        scene.machine.runtime.images[image(4)] = Image(trouble=TryLater("the registry is away", remedy="wait"))
        scene.apply({"web": service(4, volumes=(DATA,))})
        await until(scene.rig, lambda: scene.agent is not None and scene.agent.accepting.seen == scene.rig.head)
        await scene.kill()
        ahead = scene.machine.clock.now_s
        scene.machine.clock.now_s = lambda: ahead() + 10 * 365 * 86400.0  # type: ignore[method-assign]
        scene.machine.link = NoHub()
        del scene.machine.runtime.images[image(4)]
        scene.start()
        await scene.settled(at_most_s=600)
        left = {one.id for one in scene.machine.storage.checkpoints()}
        assert len(kept) == 2 and left > kept

    play({"web": service(volumes=(DATA,))}, story)


def test_a_container_that_says_very_much_in_one_second_does_not_fill_the_agents_memory() -> None:
    read = 0

    class Torrent(MemoryRuntime):
        async def logs(self, id: str, tail: int | None, since_s: float, follow: bool) -> AsyncIterator[LogLine]:
            nonlocal read
            for n in range(200_000 if tail is None else tail):
                read += 1
                yield LogLine(id, 7.0, False, f"{n}")

    async def story() -> int:
        runtime = Torrent(LoopClock(asyncio.get_running_loop(), 0.0))
        labels = {"holdfast.fleet": "f", "holdfast.service": "web"}
        one = Container("c" * 64, "one", "running", True, labels, pid=7)
        feed = LogFeed(runtime, "f", "web", LogsWanted(b"", follow=True, tail=5), 9.0)
        async with aclosing(feed.frames([one])) as frames:
            told = 0
            async for frame in frames:
                if isinstance(frame, CaughtUp):
                    return told
                told += 1
        raise AssertionError("it never caught up")

    assert asyncio.run(story()) == 5
    assert read < 20_000
