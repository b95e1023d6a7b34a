"""Steps of rollouts as they happen: every finished one once, on a line of its own; what runs on a line that changes."""

from collections.abc import Sequence

from holdfast.cli.observed import Observed
from holdfast.cli.terminal import Terminal, harmless
from holdfast.model.deployment import StepResult

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MARK = {"done": ("green", "done"), "failed": ("red", "failed")}


class StepLines:
    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._shown: set[tuple[str, str, str, float]] = set()
        self._frame = 0

    def pass_over(self, seen: Sequence[Observed]) -> None:
        self._shown |= {_key(one, step) for one in seen for step in one.steps if step.outcome != "running"}

    def show(self, seen: Sequence[Observed], now_s: float) -> None:
        for one in seen:
            for step in one.steps:
                if step.outcome != "running" and _key(one, step) not in self._shown:
                    self._shown.add(_key(one, step))
                    self._terminal.remark(self._line(one, step))
        self._show_running(seen, now_s)

    def _line(self, one: Observed, step: StepResult) -> str:
        style, word = MARK[step.outcome]
        why = f": {step.message}" if step.message and step.outcome == "failed" else ""
        mark = self._terminal.paint(style, word)
        return f"{_line(f'{one.node}  {one.service}  {step.name}')}  {mark} {step.took_s:.1f} s{_line(why)}"

    def _show_running(self, seen: Sequence[Observed], now_s: float) -> None:
        waiting = [one for one in seen if not one.is_settled]
        if not waiting:
            self._terminal.settle()
            return
        self._frame = (self._frame + 1) % len(FRAMES)
        first = waiting[0]
        step = next((step for step in first.steps if step.outcome == "running"), None)
        doing = (
            f"{step.name} {max(0.0, now_s - step.at_s):.0f} s" if step is not None else first.step or "waits its turn"
        )
        more = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
        self._terminal.live(_line(f"{FRAMES[self._frame]} {first.node}  {first.service}  {doing}{more}"))


def _key(one: Observed, step: StepResult) -> tuple[str, str, str, float]:
    return one.node, one.service, step.name, step.at_s


def _line(words: str) -> str:
    """Harmless, and unable to begin a line that looks like another step."""
    return harmless(words.replace("\n", " "))
