"""Show progress on stderr: finished steps, what a command waits for and why."""

from collections.abc import Sequence

from holdfast.cli.terminal import Terminal
from holdfast.cli.text import harmless
from holdfast.cli.waiting.awaiter import Awaited
from holdfast.model.deployment import StepResult
from holdfast.status.blockers import Blocker

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
STYLE = {"done": "green", "failed": "red", "skipped": "yellow"}
SKIPPED = "skipped: "  # begins the message of a step that was not tried
REMIND_S = 15.0
NAMED_MAX = 3


class Progress:
    """On a terminal a live line for everything under way, and one line when it is done; with -v, after a failure and
    elsewhere one line per finished step. Elsewhere also a reminder every 15 s."""

    def __init__(self, terminal: Terminal, began_s: float) -> None:
        self._terminal = terminal
        self._began_s = self._reminded_s = began_s
        self._shown: set[tuple[str, str, str, float]] = set()
        self._blockers: set[tuple[str, str, str]] = set()
        self._frame = 0

    def pass_over(self, those: Sequence[Awaited]) -> None:
        """Do not show the steps that are finished now: they belong to an earlier command."""
        self._shown |= {(one.node, one.what, step.name, step.at_s) for one in those for step in _finished(one)}

    def show(self, those: Sequence[Awaited], now_s: float) -> None:
        for one in those:
            if one.is_due:
                self._show(one)
        self._frame = (self._frame + 1) % len(FRAMES)
        waiting = [one.text(now_s) for one in those if one.is_due and not one.is_settled]
        if waiting:
            self._terminal.live([_line(f"{FRAMES[self._frame]} {text}") for text in waiting])
        else:
            self._terminal.settle()

    def end(self, those: Sequence[Awaited]) -> None:
        """Show the steps whose turn did not come."""
        for one in those:
            self._show(one, whole=not one.is_settled)
        self._terminal.settle()

    def show_blockers(self, found: Sequence[Blocker]) -> None:
        """Each reason once."""
        for one in found:
            key = (one.node, one.code, one.address)
            if key not in self._blockers:
                self._blockers.add(key)
                mark = self._terminal.paint("yellow", "waiting")
                self._terminal.remark(f"{_line(one.node)}  {mark}: {_line(one.text)}")

    def remind(self, waiting: Sequence[str], monotonic_s: float) -> None:
        if waiting and not self._terminal.is_live() and self.due_in_s(monotonic_s) <= 0:
            self._reminded_s = monotonic_s
            more = f"; and {len(waiting) - NAMED_MAX} more" if len(waiting) > NAMED_MAX else ""
            named = "; ".join(waiting[:NAMED_MAX])
            self._terminal.remark(_line(f"still waiting after {monotonic_s - self._began_s:.0f} s: {named}{more}"))

    def due_in_s(self, monotonic_s: float) -> float:
        """Seconds until the next reminder."""
        return self._reminded_s + REMIND_S - monotonic_s

    def _show(self, one: Awaited, whole: bool = False) -> None:
        is_brief = self._terminal.is_live() and not self._terminal.verbose and not whole and not _has_failed(one)
        if is_brief and not one.is_settled:
            return
        new = [step for step in _finished(one) if self._is_new(one, step.name, step.at_s)]
        if is_brief and new:
            took_s = new[-1].at_s + new[-1].took_s - new[0].at_s
            self._remark(one.lead.rstrip(": "), "done", f" {took_s:.1f} s", "")
        for step in new if not is_brief else ():
            self._show_step(one.lead + step.name, step)
        if one.result and self._is_new(one, one.result, 0.0):
            why = "" if one.result == "done" else one.message.removeprefix("skipped, ")
            self._remark(one.lead.rstrip(": "), one.result, "", why)

    def _is_new(self, one: Awaited, name: str, at_s: float) -> bool:
        key = (one.node, one.what, name, at_s)
        is_new = key not in self._shown
        self._shown.add(key)
        return is_new

    def _show_step(self, what: str, step: StepResult) -> None:
        is_skipped = step.outcome != "done" and step.message.startswith(SKIPPED)
        why = "" if step.outcome == "done" else step.message.removeprefix(SKIPPED)
        self._remark(
            what, "skipped" if is_skipped else step.outcome, "" if is_skipped else f" {step.took_s:.1f} s", why
        )

    def _remark(self, what: str, outcome: str, took: str, why: str) -> None:
        mark = self._terminal.paint(STYLE[outcome], outcome)
        self._terminal.remark(f"{_line(what)}  {mark}{took}" + (f": {_line(why)}" if why else ""))


def _has_failed(one: Awaited) -> bool:
    return any(step.outcome == "failed" for step in one.steps)


def _finished(one: Awaited) -> list[StepResult]:
    return [step for step in one.steps if step.outcome != "running"]


def _line(words: str) -> str:
    """One line without control characters, so that a text cannot imitate another step."""
    return harmless(words)
