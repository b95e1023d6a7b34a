"""After a boot of the machine, services with data wait for an answer of the hub: they may run elsewhere by now.

A hub that does not answer in time does not keep them from running: they start from what this node accepted, and are
reported as unconfirmed until the hub has shown the same revision.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec
from msgspec import Struct

from holdfast.agent.findings import Findings
from holdfast.agent.link.pace import Pace
from holdfast.agent.services.desired import Desired
from holdfast.agent.services.pacing import Pacing
from holdfast.errors import HoldfastError
from holdfast.model.cadence import NORMAL
from holdfast.ports.journal import Facts
from holdfast.reconcile.leaving import with_data

WAIT_S_MAX = 30.0
WAIT_POLLS = 3  # a fleet with a fast pace waits shorter
LOOK_S, LOOK_LATER_S = 0.1, 1.0
UNCONFIRMED = "unconfirmed"
FACT = "booting/boot"


class Noted(Struct, frozen=True):
    """The last boot after which services with data were allowed to start. `poll_s`: how often the hub was asked."""

    boot: str = ""
    is_confirmed: bool = False
    poll_s: float = NORMAL.poll_s


_noted = msgspec.json.Decoder(Noted).decode


class BootWait:
    """`is_level`: the hub, when last asked, showed what this node has accepted. `wake` lets the services be looked
    at."""

    name = "booting"

    def __init__(
        self,
        *,
        facts: Facts,
        findings: Findings,
        pacing: Pacing,
        is_level: Callable[[], bool],
        wanted: Callable[[], Desired | None],
        wake: Callable[[], None],
        pace: Pace,
        boot: str,
        node: str,
    ) -> None:
        self._facts = facts
        self._findings = findings
        self._pacing = pacing
        self._is_level = is_level
        self._wanted = wanted
        self._wake = wake
        self._pace = pace
        self._boot = boot
        self._node = node
        self._kept = _noted(facts.fact(FACT) or b"{}")
        self._told: set[str] = set()
        pacing.withhold_data(not self._is_noted)

    @property
    def _is_noted(self) -> bool:
        """Another start of the agent since the boot did this already. An unknown boot counts as a new one."""
        return self._boot != "" and self._kept.boot == self._boot

    async def run(self) -> None:
        wait_s = min(WAIT_S_MAX, WAIT_POLLS * self._kept.poll_s)
        time_s = asyncio.get_running_loop().time
        until_s = time_s() + wait_s
        while not (self._is_noted and self._kept.is_confirmed) and not self._is_level():
            if self._pacing.withholds_data and time_s() >= until_s:
                self._end(is_confirmed=False)
            if not self._pacing.withholds_data:
                self._tell(wait_s)
            await asyncio.sleep(LOOK_S if self._pacing.withholds_data else LOOK_LATER_S)
        self._end(is_confirmed=True)
        await asyncio.Event().wait()

    def _end(self, is_confirmed: bool) -> None:
        """A disk that cannot be written is told by what needs it: the next start of the agent waits again."""
        kept = Noted(self._boot, is_confirmed, self._pace.cadence.poll_s if is_confirmed else self._kept.poll_s)
        if kept != self._kept:
            self._kept = kept
            with suppress(HoldfastError):
                self._facts.set_aside(FACT, msgspec.json.encode(kept))
        if is_confirmed:
            for address in self._told:
                self._findings.clear(UNCONFIRMED, address)
        if self._pacing.withholds_data:
            self._pacing.withhold_data(False)
            self._wake()

    def _tell(self, wait_s: float) -> None:
        wanted = self._wanted()
        found = {f"service.{name}" for name in with_data(wanted.guests)} if wanted is not None else set()
        for address in self._told - found:
            self._findings.clear(UNCONFIRMED, address)
        for address in found:
            self._findings.add(
                UNCONFIRMED,
                f"{address} runs as {self._node} accepted it before its last boot: no hub confirmed within "
                f"{wait_s:.0f} s that it still belongs here",
                f"bring the connection of {self._node} to its hub back: `holdfast node show {self._node}`",
                address,
            )
        self._told = found
