"""What an agent says of its services is so at the moment it is said: nothing of a better day, nothing that is over."""

from msgspec.structs import replace

from holdfast.adapters.runtime.memory import Behaviour
from holdfast.model.container import Container
from holdfast.model.fleet import Fleet, Hooks, Node, Volume
from holdfast.model.order_view import OrderView
from holdfast.ports.prober import Verdict
from tests.fleets.agents import services_of, until
from tests.fleets.build import small_fleet
from tests.fleets.deploying import Scene, image, play, service
from tests.fleets.desks import OPERATOR

DATA = Volume("files", "/data", "backup")


async def done(scene: Scene, action: str, target: str, counter: int = 1) -> OrderView:
    signed = scene.rig.order("w1", counter, action, 900, target, **({"now": "yes"} if action == "purge" else {}))
    id = await scene.rig.desk.submit(OPERATOR, signed)

    def view() -> OrderView:
        return next(one for one in scene.rig.desk.orders("w1", 100).orders if one.id == id)

    await until(scene.rig, lambda: view().state in ("done", "failed"))
    return view()


def test_what_is_declared_inactive_is_not_called_started() -> None:
    """C-30: `active = false` is the declared form of a hold; an order does not overrule it."""

    async def story(scene: Scene) -> None:
        await scene.settled("held")
        for counter, action in ((1, "start"), (2, "restart")):
            view = await done(scene, action, "service.web", counter)
            assert view.state == "failed" and view.result is not None
            assert "active = false" in view.result.message and "holdfast deploy web" in view.result.remedy
        assert not any(one.running for one in scene.ours())

    play({"web": replace(service(), active=False)}, story)


def test_data_that_was_purged_is_not_listed_when_the_order_is_done() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        scene.apply({})
        agent = scene.agent
        assert agent is not None
        await until(scene.rig, lambda: bool(services_of(agent).section().retired) and not scene.ours())
        view = await done(scene, "purge", "data.web")
        assert view.state == "done" and "web" not in scene.machine.storage.contents
        assert services_of(agent).section().retired == ()

    play({"web": service(volumes=(DATA,))}, story)


def test_what_failed_of_a_service_is_forgotten_with_it() -> None:
    """I-24: a node is not called degraded for something that nobody wants any more."""

    async def story(scene: Scene) -> None:
        scene.machine.prober.script(image(1), Verdict(False, "answered 500"))
        await scene.settled("failed")
        assert "rollout_failed" in scene.findings()
        scene.apply({})
        await until(scene.rig, lambda: scene.agent is not None and not services_of(scene.agent).records.services())
        assert "rollout_failed" not in scene.findings()
        assert scene.agent is not None and services_of(scene.agent).section().left == (), (
            "it was not created by taking it away"
        )

    play({"web": service()}, story)


def test_what_a_hook_said_stays_on_one_line() -> None:
    """A container must not be able to write lines that look like ours."""

    async def story(scene: Scene) -> None:
        await scene.settled()
        says = ("first", "error: everything is lost", "")
        scene.machine.runtime.behaviours[("migrate",)] = Behaviour(exit_after_s=0.1, exit_code=3, says=says)
        scene.apply({"web": service(2, hooks=Hooks(("migrate",)))})
        state = await scene.settled("failed")
        assert "first ⏎ error: everything is lost" in state.message and "\n" not in state.message

    play({"web": service()}, story)


def observing(version: int) -> Fleet:
    return replace(small_fleet({"web": service(version)}), nodes={"w1": Node("w1", ("worker",), reconcile="observe")})


async def left_behind(scene: Scene) -> Container:
    """Version 1 serves; version 2 is applied, and the node only observes."""
    await scene.settled()
    scene.apply(observing(2))
    await until(scene.rig, lambda: "drift" in scene.findings())
    scene.machine.runtime.calls.clear()
    return scene.one()


def test_an_observing_node_restarts_what_is_there_and_deploys_nothing_c_04() -> None:
    async def story(scene: Scene) -> None:
        before = await left_behind(scene)
        view = await done(scene, "restart", "service.web")
        assert view.state == "done" and view.result is not None and "nothing was deployed" in view.result.message
        after = scene.one()
        assert (after.id, after.image, after.running) == (before.id, before.image, True)
        assert after.pid != before.pid, "it was really stopped and started"
        assert scene.verbs("pull", "create", "remove") == []

    play({"web": service()}, story)


def test_an_observing_node_starts_again_what_an_order_stopped_and_routes_to_it_c_30() -> None:
    async def story(scene: Scene) -> None:
        before = await left_behind(scene)
        routed = await scene.machine.proxy.routes()
        assert routed and (await done(scene, "stop", "service.web", 1)).state == "done"
        assert not scene.one().running
        assert {one.backends for one in await scene.machine.proxy.routes()} == {()}, (
            "its name answers that nobody is there"
        )
        assert (await done(scene, "start", "service.web", 2)).state == "done"
        assert (scene.one().id, scene.one().running) == (before.id, True)
        assert await scene.machine.proxy.routes() == routed
        assert scene.verbs("pull", "create", "remove") == []

    play({"web": service()}, story)


def test_an_observing_node_cleans_nothing_up_and_says_why() -> None:
    """Nothing would be made in its place: the service would be gone by an order that is meant to mend it."""

    async def story(scene: Scene) -> None:
        before = await left_behind(scene)
        view = await done(scene, "force-cleanup", "service.web")
        assert view.state == "failed" and view.result is not None and view.result.code == "only_observes"
        assert "only observes" in view.result.message and 'reconcile = "converge"' in view.result.remedy
        assert scene.one() == before and scene.verbs("stop", "remove") == []

    play({"web": service()}, story)


def test_an_observing_node_has_nothing_to_start_where_nothing_was_deployed() -> None:
    async def story(scene: Scene) -> None:
        await until(scene.rig, lambda: "drift" in scene.findings())
        for counter, action in ((1, "start"), (2, "restart")):
            view = await done(scene, action, "service.web", counter)
            assert view.state == "failed" and view.result is not None and view.result.code == "only_observes"
        assert scene.ours() == [] and scene.verbs("pull", "create") == []

    play(observing(1), story)
