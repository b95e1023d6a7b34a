"""Rollout steps as they happen: one line per finished step, and a live line for the current one."""

from collections.abc import Sequence

from holdfast.cli.terminal import Terminal, harmless
from holdfast.model.deployment import StepResult
from holdfast.status.dns import DnsObserved
from holdfast.status.edges.settled import EdgeObserved
from holdfast.status.services.settled import Observed

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MARK = {"done": ("green", "done"), "failed": ("red", "failed"), "skipped": ("yellow", "skipped")}
SKIPPED = "skipped: "  # begins the message of a step that was not tried

Key = tuple[str, str, str, float]


class StepLines:
    """In the order of a deploy (M-78): steps of the service's node, then DNS names, then steps of its edges. A step
    that happens earlier is shown when its turn comes."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._shown: set[Key] = set()
        self._dns_shown = ""
        self._frame = 0

    def pass_over(self, services: Sequence[Observed], edges: Sequence[EdgeObserved]) -> None:
        self._shown |= {_key(one.node, one.service, step) for one in services for step in _finished(one.steps)}
        self._shown |= {_key(one.edge, one.hostname, step) for one in edges for step in _finished(one.steps)}

    def show(self, services: Sequence[Observed], dns: DnsObserved, edges: Sequence[EdgeObserved], now_s: float) -> None:
        for one in services:
            self._show_steps(one.steps, one.node, one.service, f"{one.node}  {one.service}  ")
        if all(one.is_settled for one in services):
            self._show_names(dns)
        under_way = {one.service for one in services if not one.is_settled}
        if dns.is_settled:
            for edge in edges:
                if edge.service not in under_way:
                    self._show_edge(edge)
        self._show_running(services, dns, edges, now_s)

    def show_rest(self, dns: DnsObserved, edges: Sequence[EdgeObserved]) -> None:
        """After waiting: show the steps whose turn did not come."""
        self._show_names(dns)
        for edge in edges:
            self._show_edge(edge)

    def _show_edge(self, edge: EdgeObserved) -> None:
        self._show_steps(edge.steps, edge.edge, edge.hostname, f"edge {edge.edge} {edge.hostname}: ")
        key = (edge.edge, edge.hostname, edge.phase, 0.0)
        if edge.phase == "skipped" and key not in self._shown:
            self._shown.add(key)
            mark = self._terminal.paint("yellow", "skipped")
            why = edge.message.removeprefix("skipped, ")
            self._terminal.remark(f"{_line(f'edge {edge.edge} {edge.hostname}')}  {mark}: {_line(why)}")

    def _show_names(self, dns: DnsObserved) -> None:
        if dns.phase in ("unchanged", "waiting", "unknown", self._dns_shown):
            return
        self._dns_shown = dns.phase
        style, word = MARK["done" if dns.phase == "served" else "failed"]
        bad = dns.those("failed")
        why = f": {bad[0].node}: {bad[0].message}" if bad else ""
        where = ", ".join(one.node for one in (bad or dns.those("served")))
        self._terminal.remark(f"{_line(f'dns  {where}')}  {self._terminal.paint(style, word)}{_line(why)}")

    def _show_steps(self, steps: Sequence[StepResult], node: str, what: str, before: str) -> None:
        for step in _finished(steps):
            if _key(node, what, step) not in self._shown:
                self._shown.add(_key(node, what, step))
                self._terminal.remark(self._step(before + step.name, step))

    def _step(self, words: str, step: StepResult) -> str:
        is_skipped = step.outcome != "done" and step.message.startswith(SKIPPED)
        style, word = MARK["skipped" if is_skipped else step.outcome]
        why = f": {step.message.removeprefix(SKIPPED)}" if step.message and step.outcome != "done" else ""
        took = "" if is_skipped else f" {step.took_s:.1f} s"
        return f"{_line(words)}  {self._terminal.paint(style, word)}{took}{_line(why)}"

    def _show_running(
        self, services: Sequence[Observed], dns: DnsObserved, edges: Sequence[EdgeObserved], now_s: float
    ) -> None:
        waiting = under_way(services, dns, edges, now_s)
        if not waiting:
            self._terminal.settle()
            return
        self._frame = (self._frame + 1) % len(FRAMES)
        more = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
        self._terminal.live(_line(f"{FRAMES[self._frame]} {waiting[0]}{more}"))


def under_way(
    services: Sequence[Observed], dns: DnsObserved, edges: Sequence[EdgeObserved], now_s: float, whole: bool = False
) -> list[str]:
    """Everything that has not settled, in the order of a deploy. `whole`: with the message."""
    lines = [
        f"{one.node}  {one.service}  {_doing(one, now_s)}{_why(one.message, whole)}"
        for one in services
        if not one.is_settled
    ]
    if not dns.is_settled:
        waiting = dns.those("waiting")
        troubles = "; ".join(f"{one.node}: {one.message}" for one in waiting if one.message)
        lines.append(f"dns  {', '.join(one.node for one in waiting)}{_why(troubles, whole)}")
    lines += [
        f"edge {one.edge} {one.hostname}: {_doing(one, now_s)}{_why(one.message, whole)}"
        for one in edges
        if not one.is_settled
    ]
    return lines


def _why(message: str, whole: bool) -> str:
    return f": {message}" if whole and message else ""


def _doing(one: Observed | EdgeObserved, now_s: float) -> str:
    step = next((step for step in one.steps if step.outcome == "running"), None)
    return f"{step.name} {max(0.0, now_s - step.at_s):.0f} s" if step is not None else one.step or "not started"


def _finished(steps: Sequence[StepResult]) -> list[StepResult]:
    return [step for step in steps if step.outcome != "running"]


def _key(node: str, what: str, step: StepResult) -> Key:
    return node, what, step.name, step.at_s


def _line(words: str) -> str:
    """One line without control characters, so that a text cannot imitate another step."""
    return harmless(words.replace("\n", " "))
