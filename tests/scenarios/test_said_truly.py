"""What an agent says of its services is so at the moment it is said: nothing of a better day, nothing that is over."""

from msgspec.structs import replace

from holdfast.adapters.runtime.memory import Behaviour
from holdfast.model.fleet import Hooks, Volume
from holdfast.model.order_view import OrderView
from holdfast.ports.prober import Verdict
from tests.fleets.agents import until
from tests.fleets.deploying import Scene, image, play, service
from tests.fleets.desks import OPERATOR

DATA = Volume("files", "/data", "backup")


async def done(scene: Scene, action: str, target: str, counter: int = 1) -> OrderView:
    signed = scene.rig.order("w1", counter, action, target=target)
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
        await until(scene.rig, lambda: bool(agent.services.retired) and not scene.ours())
        view = await done(scene, "purge", "data.web")
        assert view.state == "done" and "web" not in scene.machine.storage.contents
        assert agent.services.retired == ()

    play({"web": service(volumes=(DATA,))}, story)


def test_what_failed_of_a_service_is_forgotten_with_it() -> None:
    """I-24: a node is not called degraded for something that nobody wants any more."""

    async def story(scene: Scene) -> None:
        scene.machine.prober.script(image(1), Verdict(False, "answered 500"))
        await scene.settled("failed")
        assert "rollout_failed" in scene.findings()
        scene.apply({})
        await until(scene.rig, lambda: scene.agent is not None and not scene.agent.services.records.services())
        assert "rollout_failed" not in scene.findings()
        assert scene.agent is not None and scene.agent.services.left() == (), "it was not created by taking it away"

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
