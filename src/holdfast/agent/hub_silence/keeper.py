"""Tell people, without the hub, that this node does not hear its hub, and that it hears it again (X17).

Sends only to targets that an operator of grade destroy signed for this node. Without one it waits for nothing.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec
from msgspec import Struct

from holdfast.agent.backoff import Backoff
from holdfast.agent.findings import Findings
from holdfast.agent.hub_silence.targets import Target, Targets
from holdfast.agent.keeper import Hints, Revision
from holdfast.agent.link.pace import Pace
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError
from holdfast.model import duration
from holdfast.model.alert import Alert
from holdfast.ports.journal import Journal
from holdfast.reconcile import hub_silence
from holdfast.reconcile.hub_silence import CODES, Episode, Message

FACT = "hub_silence/state"
KEEP_S = 60.0  # between two notes that the hub was heard
QUIET_LOOK_S = 60.0  # in quiet hours: a clock may be set
UNDELIVERED, UNUSABLE = "alert_undelivered", "alert_unusable"


class Noted(Struct, frozen=True, omit_defaults=True):
    """What survives a restart: the wall clock when the hub was last heard, and the targets with an open alarm."""

    heard_s: float | None = None
    told: tuple[str, ...] = ()


_noted = msgspec.json.Decoder(Noted).decode


class HubSilence:
    """`is_level`: the hub, when last asked, showed the revision that this node accepted."""

    name = "hub_silence"

    def __init__(
        self,
        *,
        targets: Targets,
        journal: Journal,
        time: NodeTime,
        pace: Pace,
        findings: Findings,
        is_level: Callable[[], bool],
        report: Callable[[], None],
        node: str,
    ) -> None:
        self._targets = targets
        self._journal = journal
        self._time = time
        self._pace = pace
        self._findings = findings
        self._is_level = is_level
        self._report = report
        self._node = node
        self._bell = asyncio.Event()
        self._kept = Noted()
        self._heard_s: float | None = None  # wall clock
        self._found: dict[str, Target] = {}
        self._episodes: dict[str, Episode] = {}
        self._again: dict[str, tuple[float, Backoff]] = {}  # after a send that failed: when to try again

    # ---- what is declared

    def follow(self, revision: Revision) -> None:
        found = self._targets.of(revision)
        if found == self._found:
            return
        if not self._found:
            self._kept = _noted(self._journal.fact(FACT) or b"{}")
            self._heard_s = self._kept.heard_s
        for name in self._found.keys() - found.keys():
            self._forget(name)
        changed = [target for name, target in found.items() if self._found.get(name) != target]
        self._found = found
        now_s, wall_s = self._time.monotonic_s(), self._time.now_s()
        for target in changed:
            self._check(target)
            if target.name not in self._episodes:
                told = target.name in self._kept.told
                heard_s = self._heard_s
                self._episodes[target.name] = hub_silence.begun(now_s, wall_s, heard_s, told, self._limit_s(target))
        self._keep()
        self._bell.set()

    def _check(self, target: Target) -> None:
        """Before it is needed: a URL that cannot be used is shown while the hub still is there to show it."""
        try:
            self._targets.notifier(target)
        except HoldfastError as trouble:
            self._findings.add_trouble(UNUSABLE, trouble, target.address)
        else:
            self._findings.clear(UNUSABLE, target.address)

    def _forget(self, name: str) -> None:
        for code in (UNUSABLE, UNDELIVERED):
            self._findings.clear(code, self._found[name].address)
        self._episodes.pop(name, None)
        self._again.pop(name, None)

    def _limit_s(self, target: Target) -> float:
        return hub_silence.limit_s(target.after_s, self._pace.cadence)

    # ---- what the hub does

    def hinted(self, hints: Hints) -> None:
        """An answer of a hub that knows this node; it counts only if that hub shows what this node accepted."""
        if not self._found or not self._is_level():
            return
        now_s = self._time.monotonic_s()
        self._heard_s = self._time.now_s()
        for name, target in self._found.items():
            before = self._episodes[name]
            self._episodes[name] = hub_silence.heard(before, now_s, self._limit_s(target))
            if before.told or name in self._again:
                self._bell.set()
        if abs(self._heard_s - (self._kept.heard_s or 0.0)) >= KEEP_S:
            self._keep()

    def _keep(self) -> None:
        """A disk that cannot be written is told by what needs it."""
        told = tuple(sorted(name for name, episode in self._episodes.items() if episode.told))
        kept = Noted(self._heard_s, told) if self._found else Noted()
        if kept != self._kept:
            self._kept = kept
            with suppress(HoldfastError):
                self._journal.set_aside(FACT, msgspec.json.encode(kept))

    # ---- sending

    async def run(self) -> None:
        while True:
            self._bell.clear()
            next_s = await self._look()
            wait_s = None if next_s is None else max(next_s - self._time.monotonic_s(), 0.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._bell.wait()

    async def _look(self) -> float | None:
        """Send what is due; when to look again, None: not before something happens."""
        times = await asyncio.gather(*(self._serve(target) for target in list(self._found.values())))
        return min((at_s for at_s in times if at_s is not None), default=None)

    async def _serve(self, target: Target) -> float | None:
        now_s, episode = self._time.monotonic_s(), self._episodes.get(target.name)
        if episode is None:  # it was removed just now
            return None
        message, at_s = hub_silence.due(episode, now_s, self._limit_s(target))
        again_s, pause = self._again.get(target.name, (now_s, None))
        if message is None:
            if self._again.pop(target.name, None) is not None:
                self._findings.clear(UNDELIVERED, target.address)
            return at_s
        if now_s < again_s:
            return again_s
        if quiet_s := self._targets.quiet_s(target, self._time.now_s()):
            return now_s + min(quiet_s, QUIET_LOOK_S)
        try:
            await self._targets.notifier(target).send(self._alert(message, target.fleet))
        except HoldfastError as trouble:
            return self._failed(target, trouble, pause or self._pace.backoff())
        self._sent(target, message)
        return self._time.monotonic_s()

    def _sent(self, target: Target, message: Message) -> None:
        self._again.pop(target.name, None)
        self._findings.clear(UNDELIVERED, target.address)
        if target.name in self._episodes:
            self._episodes[target.name] = hub_silence.sent(self._episodes[target.name], message)
        self._keep()
        self._report()

    def _failed(self, target: Target, trouble: HoldfastError, pause: Backoff) -> float:
        at_s = self._time.monotonic_s() + pause.grow()
        if target.name in self._episodes:
            self._again[target.name] = (at_s, pause)
            rotate = f"`holdfast secret rotate {target.secret}`, then `holdfast apply`"
            remedy = f"look how {self._node} reaches it; if the address is wrong: {rotate}"
            self._findings.add(UNDELIVERED, trouble.message, remedy, target.address)
            self._report()
        return at_s

    def _alert(self, message: Message, fleet: str) -> Alert:
        now_s, remedy = self._time.now_s(), "nothing to do; `holdfast status` shows the fleet"
        text = f"{self._node} hears the hub again"
        if message == "alarm":
            text, remedy = (
                self._silence(now_s),
                "look at the machine of the hub and its network; then `holdfast status`",
            )
        return Alert(CODES[message], message, fleet, f"node.{self._node}", text, remedy, now_s)

    def _silence(self, now_s: float) -> str:
        age = "" if self._heard_s is None else f" for {duration.aged(max(now_s - self._heard_s, 0.0))}"
        return (
            f"{self._node} has got no good answer from the hub{age}: the hub is down, is not reached, or shows another "
            "revision than the one that this node accepted; services keep running as accepted"
        )
