"""How far a step is: reported while it lasts, and seldom, since each report costs a signature."""

import asyncio

from holdfast.agent.services.rollout.attempts import Attempt
from tests.fleets.virtual import VirtualLoop, run


def test_a_long_step_is_reported_every_two_seconds_and_a_short_one_not_at_all() -> None:
    async def story(loop: VirtualLoop) -> None:
        reports: list[str] = []
        attempt = Attempt(loop.time, lambda: reports.append(attempt.steps[-1].message or attempt.steps[-1].outcome))
        attempt.begin("pull web:1")
        attempt.say("layer 1")
        attempt.done()
        await asyncio.sleep(10)
        assert reports == ["running", "done"], "nothing after the end of a short step"
        reports.clear()
        attempt.begin("pull web:2")
        for layer in range(50):
            attempt.say(f"layer {layer}")
            await asyncio.sleep(0.1)
        await asyncio.sleep(60)
        assert len(reports) == 4 and reports[-1] == "layer 49", "in five seconds, and the last one too"
        attempt.done()
        assert reports[-1] == "done"

    run(story)
