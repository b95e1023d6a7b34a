"""Progress on a terminal: one live line for each service, details with -v and after a failure."""

import io
import re
from pathlib import Path

from msgspec.structs import replace

from holdfast.cli.terminal import Terminal
from holdfast.cli.waiting.awaiter import Awaited
from holdfast.cli.waiting.progress import Progress
from holdfast.model.deployment import StepResult
from tests.fleets.commands import Scene, changed, scene
from tests.specs.cli.test_terminal import CONTROLS, HOSTILE, Screen

COLUMNS, ROWS = 40, 6


def live_terminal(columns: int = COLUMNS, rows: int = ROWS) -> tuple[Terminal, Screen]:
    screen = Screen()
    return Terminal(io.StringIO(), screen, io.StringIO(), size=lambda stream: (columns, rows)), screen


def visible(written: str) -> list[str]:
    """The lines of a terminal after this was written. It knows the codes of live lines and no others."""
    lines, at, column = [""], 0, 0
    for code, up, character in re.findall(r"(\x1b\[(\d*)[AJ])|([^\x1b])", written):
        if code.endswith("A"):
            at -= int(up)
            assert at >= 0, "above the first line"
        elif code.endswith("J"):
            lines = [*lines[:at], lines[at][:column]]
        elif character == "\r":
            column = 0
        elif character == "\n":
            at, column = at + 1, 0
            lines += [""] * (at == len(lines))
        else:
            lines[at] = lines[at][:column] + character + lines[at][column + 1 :]
            column += 1
    return [line for line in lines if line]


def awaited(name: str, *steps: StepResult, is_settled: bool = False) -> Awaited:
    return Awaited("w1", name, f"w1  {name}  ", is_settled, steps=steps, step="not started")


RUNNING = StepResult("pull", "running", 100.0)
DONE = StepResult("pull", "done", 100.0, 2.5)


def test_each_service_has_one_live_line_that_is_replaced_when_it_is_done() -> None:
    terminal, screen = live_terminal()
    progress = Progress(terminal, 0.0)
    progress.show([awaited("web", RUNNING), awaited("db")], 103.0)
    assert [line[2:] for line in visible(screen.getvalue())] == ["w1  web  pull 3 s", "w1  db  not started"]
    progress.show([awaited("web", DONE, replace(RUNNING, name="start")), awaited("db", RUNNING)], 104.0)
    assert [line[2:] for line in visible(screen.getvalue())] == ["w1  web  start 4 s", "w1  db  pull 4 s"]
    start = StepResult("start", "done", 102.5, 1.5)
    progress.show([awaited("web", DONE, start, is_settled=True), awaited("db", RUNNING)], 105.0)
    first, second = visible(screen.getvalue())
    assert first == "w1  web  done 4.0 s" and second.endswith("w1  db  pull 5 s")
    progress.end([awaited("web", DONE, start, is_settled=True), awaited("db", DONE, is_settled=True)])
    assert visible(screen.getvalue()) == ["w1  web  done 4.0 s", "w1  db  done 2.5 s"]


def test_with_v_and_after_a_failure_every_step_is_shown() -> None:
    failed = StepResult("start", "failed", 103.0, 0.5, "no such file")
    for verbose, last in ((True, StepResult("start", "done", 103.0, 0.5)), (False, failed)):
        terminal, screen = live_terminal()
        terminal.verbose = verbose
        Progress(terminal, 0.0).show([awaited("web", DONE, last, is_settled=True)], 104.0)
        lines = visible(screen.getvalue())
        assert lines[0] == "w1  web  pull  done 2.5 s" and lines[1].startswith("w1  web  start  "), verbose


def test_what_is_not_ready_in_time_shows_its_steps_at_the_end() -> None:
    terminal, screen = live_terminal()
    progress = Progress(terminal, 0.0)
    progress.show([awaited("web", DONE, replace(RUNNING, name="start"))], 104.0)
    assert len(visible(screen.getvalue())) == 1
    progress.end([awaited("web", DONE, replace(RUNNING, name="start"))])
    assert visible(screen.getvalue()) == ["w1  web  pull  done 2.5 s"]


def test_live_lines_never_exceed_the_terminal() -> None:
    terminal, screen = live_terminal(columns=20)
    Progress(terminal, 0.0).show([awaited(f"service-{n}", RUNNING) for n in range(50)], 101.0)
    lines = visible(screen.getvalue())
    assert len(lines) == ROWS - 1 and lines[-1] == "… and 46 more"
    assert all(len(line) < 20 for line in lines) and lines[0].endswith("…")


def test_a_pull_shows_how_far_it_is() -> None:
    terminal, screen = live_terminal()
    Progress(terminal, 0.0).show([awaited("web", replace(RUNNING, message="layer 4"))], 112.0)
    assert visible(screen.getvalue())[0].endswith("w1  web  pull 12 s, layer 4")


def test_a_node_cannot_move_the_cursor_with_its_progress() -> None:
    terminal, screen = live_terminal(columns=300)
    Progress(terminal, 0.0).show([awaited("web", replace(RUNNING, message=HOSTILE + "\nforged"))], 112.0)
    assert len(visible(screen.getvalue())) == 1
    assert not (CONTROLS - set("\x1b\r")) & set(screen.getvalue()) and "\x1b[2J" not in screen.getvalue()


def test_a_deploy_on_a_terminal_is_one_line_when_it_worked(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.terminal, screen = live_terminal(100)
        steps = (one.step("pull web:2", took_s=0.8), one.step("start main 0", took_s=0.2))
        one.then(
            lambda: one.says(one.state("settling", steps=(replace(steps[0], outcome="running"),))),
            lambda: one.says(one.state("converged", steps=steps)),
        )
        one.operator.fleet = changed(one.operator.fleet, web=2)
        one.operator.does("deploy", "web")
        assert "w1  web  pull web:2 " in screen.getvalue(), "while it was under way"
        lines = [line for line in visible(screen.getvalue()) if line.startswith("w1")]
        assert len(lines) == 1 and lines[0].startswith("w1  web  done ")

    scene(tmp_path, story)


def test_v_shows_the_steps_of_a_deploy_on_a_terminal(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.terminal, screen = live_terminal(100)
        one.then(lambda: one.says(one.state("converged", steps=(one.step("pull web:2", took_s=0.8),))))
        one.operator.fleet = changed(one.operator.fleet, web=2)
        one.operator.does("deploy", "web", "-v")
        assert "w1  web  pull web:2  done 0.8 s" in visible(screen.getvalue())

    scene(tmp_path, story)
