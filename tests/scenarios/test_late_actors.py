"""R09: hub, source or target of a move stands still or is cut off for two minutes, at each step of the move."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.errors import NotPermitted, Unreachable
from holdfast.reconcile.moves import Into, Out
from holdfast.wiring.agent_parts import Ports
from tests.fleets.agents import Machine, until
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios.test_moves import Moving, notes
from tests.scenarios.test_moving import NODES

_out, _into = msgspec.json.Decoder(Out).decode, msgspec.json.Decoder(Into).decode

OUT, INTO = "moves/out/web", "moves/into/web"
STEPS: dict[str, Callable[[str, bytes], bool]] = {
    "accepted": lambda fact, text: fact == OUT,
    "copied": lambda fact, text: fact == OUT and _out(text).passes > 0,
    "stopping": lambda fact, text: fact == OUT and _out(text).stopping,
    "handed over": lambda fact, text: fact == OUT and bool(_out(text).handover),
    "arrived": lambda fact, text: fact == INTO and _into(text).has_arrived,
}
AWAY_S, HEALED_S = 120.0, 60.0


class Stand:
    """What an actor reaches while it stands still: nothing; or, cut off, an error."""

    def __init__(self) -> None:
        self.goes = asyncio.Event()
        self.goes.set()
        self.is_cut = False

    async def pass_by(self) -> None:
        if self.is_cut:
            raise Unreachable("the line is cut", remedy="wait", code="unreachable")
        await self.goes.wait()


class Behind:
    """Calls of the object behind it wait at the stands, and so do their answers."""

    def __init__(self, inner: Any, *stands: Stand) -> None:
        self._inner = inner
        self._stands = stands

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def called(*args: Any, **named: Any) -> Any:
            if name == "is_there" and any(stand.is_cut for stand in self._stands):
                return False
            for stand in self._stands:
                await stand.pass_by()
            answer = await found(*args, **named)
            for stand in self._stands:
                await stand.pass_by()
            return answer

        return called


class Journal(MemoryJournal):
    def __init__(self, heard: Callable[[str, bytes], None]) -> None:
        super().__init__()
        self._heard = heard

    def set_aside(self, name: str, value: bytes) -> None:
        super().set_aside(name, value)
        self._heard(name, value)


class Slow(Machine):
    """One whose process, or whose hub, may stand still."""

    hub: Stand
    own: Stand
    line: Stand

    def ports(self) -> Ports:
        made = super().ports()
        passage = Behind(self.backups.passage, self.own, self.line, self.hub)
        return replace(
            made,
            link=Behind(self.link, self.own, self.line, self.hub),
            runtime=Behind(self.runtime, self.own),
            backups=replace(self.backups, passage=passage),
        )


class Late(Moving):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop, notes())
        self.hub = Stand()
        self.passed: dict[str, float] = {}  # step → when
        self.at = ""
        self.then: Callable[[], None] = lambda: None
        for name in NODES:
            machine = self.machines[name] = Slow(self.rig, name)
            machine.hub, machine.own, machine.line = self.hub, Stand(), Stand()
            machine.backups = replace(machine.backups, passage=self.passage)
            machine.journal = Journal(self.heard)

    def heard(self, fact: str, text: bytes) -> None:
        """The moment at which a step of the move is on the disk of its node."""
        for step, is_there in STEPS.items():
            if step not in self.passed and is_there(fact, text):
                self.passed[step] = self.rig.clock.now_s()
                if step == self.at:
                    self.then()

    def stand(self, actor: str) -> Stand:
        if actor == "hub":
            return self.hub
        machine = self.machines[actor.partition(" ")[0]]
        assert isinstance(machine, Slow)
        return machine.line if actor.endswith("line") else machine.own

    def starts(self, node: str) -> list[float]:
        return [call.at_s for call in self.machines[node].runtime.calls if call.verb == "start"]


@pytest.mark.parametrize("actor", ["hub", "w1", "w2", "w1 line", "w2 line"])
@pytest.mark.parametrize("step", STEPS)
def test_one_copy_runs_whoever_is_late_r09(step: str, actor: str) -> None:
    """Names with `line` are cut off; the others stand still, as by SIGSTOP."""

    async def main(loop: VirtualLoop) -> None:
        made = Late(loop)
        stand = made.stand(actor)

        def stop() -> None:
            stand.is_cut = actor.endswith("line")
            stand.goes.clear()

        made.at, made.then = step, stop
        desk = asyncio.ensure_future(made.rig.desk.run())
        for node in NODES:
            made.start(node)
        await made.runs_on(w1=1)
        made.write("w1", b"first")
        await asyncio.sleep(30)
        watching = asyncio.ensure_future(made.watch_two())
        made.move("w2")
        await until(made.rig, lambda: step in made.passed)
        with pytest.raises(NotPermitted, match="it is there already"):  # the operator repeats it
            made.move("w2")
        await asyncio.sleep(AWAY_S)
        stand.is_cut = False
        stand.goes.set()
        await asyncio.sleep(HEALED_S)
        assert await made.running() == {"w2": 1} and made.both_s is None
        assert made.page("w2") == b"first" and made.page("w1") == b"first"
        handed_s = made.passed["handed over"]
        assert max(made.starts("w1")) <= handed_s <= min(made.starts("w2")), "nothing of the older epoch was started"
        (one,) = [one for one in await made.machines["w2"].runtime.containers() if one.running]
        assert one.labels["holdfast.epoch"] == "2" and list(made.passed) == list(STEPS)
        for task in (watching, desk, *made.tasks.values()):
            task.cancel()
        await asyncio.gather(watching, desk, *made.tasks.values(), return_exceptions=True)

    run(main)
