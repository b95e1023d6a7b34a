"""The end of an applying command: receipts, and every service it changed seen to run, to be gone, or to have failed.

Waits by the node's own signed words alone. Whatever is not seen in time is said; nothing has to be applied again.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli import observed, receipts
from holdfast.cli.lookout import Lookout
from holdfast.cli.moment import rfc3339
from holdfast.cli.observed import Awaited, Observed
from holdfast.cli.receipts import Receipts
from holdfast.cli.show_steps import StepLines
from holdfast.cli.toolbox import Toolbox
from holdfast.errors import Failed, HoldfastError, SignatureRequired, Unreachable
from holdfast.model import duration
from holdfast.model.applied import Applied, content, table_of
from holdfast.model.ids import FLEET
from holdfast.model.revision import Head
from holdfast.planning.documents import FleetDocument
from holdfast.ports.hub_link import FleetReader, HubReader

if TYPE_CHECKING:
    from holdfast.cli.testimony import Testimony

SILENT_S = 2.0  # an agent that says nothing of services so long after its receipt runs none
PARKED_S = 1.0  # what was parked before this revision is taken away within that
LOOK_S = 0.5  # while one of these runs
NAMED_MAX = 5


class Outcome(Struct, frozen=True):
    receipts: Receipts = receipts.NONE
    services: tuple[Observed, ...] = ()


NOTHING = Outcome()


def wait(hub: HubReader, before: Applied | None, head: Head, box: Toolbox) -> Outcome:
    """`before` is what was applied when the plan was made. A ledger directory has nothing to wait for."""
    if not isinstance(hub, FleetReader):
        return NOTHING
    found = receipts.following(hub, before, head)
    if found is None:
        return NOTHING
    wanted = observed.awaited(table_of(before), found.applied.table)
    if not found.affected and not wanted:
        return NOTHING
    lookout = Lookout(hub, found.applied, tuple(found.affected | {one.node for one in wanted}), box)
    watch = Watch(wanted, found.branch, box)
    got = receipts.gather(found, lookout, box, seen=watch.look)
    return Outcome(got, watch.settled(lookout, found.applied, frozenset(got.missing)))


def look_again(hub: HubReader, applied: Applied, only: str | None, box: Toolbox) -> Outcome:
    """For a command with nothing to change: what is under way is waited for, and what failed is not called done.

    A node that is silent, or says nothing of a service, is not waited for: nothing was asked of it now. What it said on
    a better day is no result.
    """
    wanted = observed.applied_now(applied.table, only)
    if not isinstance(hub, FleetReader) or not wanted:
        return NOTHING
    lookout = Lookout(hub, applied, tuple({one.node for one in wanted}), box)
    heard = lookout.look()
    silent = [one for one in wanted if one.node in heard and heard[one.node].status == "unhealthy"]
    spoken = [one for one in wanted if one not in silent and _speaks_of(heard.get(one.node), one)]
    watch = Watch(spoken, None, box)
    watch.look(heard, only_new=True)
    unheard = tuple(observed.unheard(one, heard[one.node].age_s) for one in silent)
    return Outcome(services=(*watch.settled(lookout, applied, frozenset()), *unheard))


def _speaks_of(word: "Testimony | None", one: Awaited) -> bool:
    states = word.report.services if word is not None and word.verified and word.report is not None else ()
    return any(state.service == one.service and state.applied == one.deployment for state in states)


class Watch:
    """Looks at what nodes say of these services until each has settled or its time is up."""

    def __init__(self, wanted: Sequence[Awaited], branch: receipts.Branch | None, box: Toolbox) -> None:
        self._wanted = wanted
        self._branch = branch
        self._box = box
        self._lines = StepLines(box.terminal)
        self._since_s: dict[tuple[Awaited, str], float] = {}  # first seen silent, or parked
        self._began_s = box.clock.monotonic_s()
        self.seen: tuple[Observed, ...] = ()

    def look(self, heard: "dict[str, Testimony]", only_new: bool = False) -> None:
        """`only_new`: what happened before this command is not told as if it happened now."""
        self.seen = tuple(self._judged(one, heard.get(one.node)) for one in self._wanted)
        if only_new:
            self._lines.pass_over(self.seen)
        self._lines.show(self.seen, self._box.clock.now_s())

    def _judged(self, one: Awaited, word: "Testimony | None") -> Observed:
        signed = self._branch is None or (word is not None and receipts.accepted(word, self._branch))
        found = observed.judge(one, word, signed)
        if found.phase == "parked" and not self._lasts(one, "parked", PARKED_S):
            return replace(found, phase="settling")
        is_silent = found.phase == "settling" and signed and observed.says_nothing(word)
        return observed.unwatched(one) if is_silent and self._lasts(one, "silent", SILENT_S) else found

    def _lasts(self, one: Awaited, what: str, for_s: float) -> bool:
        now_s = self._box.clock.monotonic_s()
        return now_s - self._since_s.setdefault((one, what), now_s) >= for_s

    def settled(self, lookout: Lookout, applied: Applied, without: Collection[str]) -> tuple[Observed, ...]:
        """`without`: nodes that did not sign for the revision, and have had their time."""
        if any(not one.is_settled for one in self.seen):
            deploy_s, undeploy_s = limits_s(applied)
            by = {one: self._began_s + (deploy_s if one.deployment else undeploy_s) for one in self._wanted}
            while (left_s := self._left_s(by, without)) > 0:
                lookout.rest(min(left_s, LOOK_S) if self._since_s else left_s)
                self.look(lookout.look())
        self._box.terminal.settle()
        return self.seen

    def _left_s(self, by: dict[Awaited, float], without: Collection[str]) -> float:
        pairs = zip(self._wanted, self.seen, strict=True)
        ends = [by[one] for one, seen in pairs if not seen.is_settled and one.node not in without]
        return max(ends, default=0.0) - self._box.clock.monotonic_s()


def limits_s(applied: Applied) -> tuple[float, float]:
    """[timeouts] deploy and undeploy (M-64)."""
    found = content(applied.contents, applied.table.entries[FLEET].digest, FLEET)
    timeouts = msgspec.json.decode(found, type=FleetDocument).timeouts
    return duration.milliseconds(timeouts.deploy) / 1000, duration.milliseconds(timeouts.undeploy) / 1000


# ---- telling


def document(outcome: Outcome) -> dict[str, Any]:
    return {
        "receipts": msgspec.to_builtins(outcome.receipts),
        "services": [_service(one) for one in outcome.services],
        "success": trouble(outcome, None) is None,
    }


def _service(one: Observed) -> dict[str, Any]:
    """Every key, also where it is empty: scripts rely on them."""
    steps = [
        {"name": s.name, "outcome": s.outcome, "at": rfc3339(s.at_s), "took_s": s.took_s, "message": s.message}
        for s in one.steps
    ]
    return {
        "service": one.service,
        "node": one.node,
        "phase": one.phase,
        "step": one.step,
        "code": one.code,
        "message": one.message,
        "remedy": one.remedy,
        "steps": steps,
    }


def told(outcome: Outcome) -> list[str]:
    lines = receipts.told(outcome.receipts)
    groups: dict[str, list[str]] = {}
    for one in outcome.services:
        if one.phase in ("converged", "held", "retired"):
            groups.setdefault(one.phase, []).append(f"{one.service} on {one.node}")
        elif one.phase == "unknown" and one.node not in outcome.receipts.not_joined:
            lines.append(f"Not waited for: {one.service}; {one.message}")
    return lines + [f"{phase.capitalize()}: {_named(names)}." for phase, names in groups.items()]


def trouble(outcome: Outcome, head: Head | None) -> HoldfastError | None:
    """What did not work, the worst first; None if everything did."""
    is_applied = f"revision {head.number} IS applied, but " if head is not None else ""
    failed = observed.failures(outcome.services)
    if failed:
        return _failed(failed, is_applied)
    parked = [one for one in outcome.services if one.phase == "parked"]
    if parked:
        first = parked[0]
        text = f"{is_applied}{first.node} will not go on with {first.service} without a signature: {first.message}"
        return SignatureRequired(text, remedy=first.remedy, code="needs_operator")
    if outcome.receipts.missing:
        return receipts.missing(outcome.receipts, is_applied)
    late = [one for one in outcome.services if not one.is_settled]
    if late:
        return Unreachable(
            f"{is_applied}in the time that [timeouts] gives, these did not settle: {_named([_where(o) for o in late])}",
            remedy="nothing has to be applied again; holdfast status shows how it goes on",
            code="not_settled",
        )
    return None


def _failed(failed: Sequence[Observed], is_applied: str) -> Failed:
    said = "; ".join(_why(one) for one in failed[:NAMED_MAX])
    more = f"; and {len(failed) - NAMED_MAX} more" if len(failed) > NAMED_MAX else ""
    first = failed[0]
    own = first.remedy or f"holdfast logs {first.service} shows what it said"
    return Failed(
        f"{is_applied}{said}{more}",
        remedy=own if "holdfast rollback" in own else f"{own}; holdfast rollback goes back to what worked",
        code="rollout_failed",
    )


def _why(one: Observed) -> str:
    step = f" at step {one.step!r}" if one.step else ""
    why = f": {_below(one.message)}" if one.message else ""
    if one.phase == "failed":
        serves = f"{one.serves} still serves" if one.serves != "nothing" else "nothing serves"
        return f"{one.service} failed on {one.node}{step}{why}; {serves}"
    broken = next((s for s in one.steps if s.outcome == "failed"), None)
    said = f" {broken.name!r}: {_below(broken.message)}" if broken is not None else ""
    return f"{one.service} serves on {one.node}, but a step failed:{said}"


def _below(words: str) -> str:
    """Last lines of a log may be in it: each stays behind the margin, so that none looks like one of ours."""
    return words.rstrip().replace("\n", "\n    ")


def _where(one: Observed) -> str:
    return f"{one.service} on {one.node}" + (f" (step {one.step!r})" if one.step else "")


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_MAX]) + (f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else "")
