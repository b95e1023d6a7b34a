"""Tables fit the terminal they are shown on, and are whole elsewhere."""

import io
from pathlib import Path

import pytest

from holdfast.cli import tables
from holdfast.cli.terminal import Terminal, clip, system_terminal, width
from tests.fleets.commands import Scene, scene
from tests.specs.cli.test_ps_and_status import main_of
from tests.specs.cli.test_terminal import CONTROLS, HOSTILE, Screen

NARROW = 60


def shown_on(columns: int, out: io.StringIO | None = None) -> Terminal:
    out = out if out is not None else Screen()
    return Terminal(out, io.StringIO(), out, environ_no_colour=True, size=lambda stream: (columns, 24))


ROWS = [
    ("web/main", "running", "registry.example.com/some/long/path/web:2024-11-16", "w1", "https://shop.example.com/"),
    ("a-service-with-a-name", "stopped", "db:1", "w2", "-"),
]


def test_no_row_is_wider_than_the_terminal_and_names_stay_whole() -> None:
    lines = tables.lines(ROWS, shown_on(NARROW), ("SERVICE", "STATUS", "IMAGE", "NODE", "PORTS"), {1: tables.by({})})
    assert max(map(len, lines)) <= NARROW and len(lines) == 3
    assert lines[2].startswith("a-service-with-a-name  stopped  db:1") and "web/main" in lines[1]
    assert "regi" in lines[1] and "…" in lines[1] and "  w1    https://" in lines[1], "every column is there"


def test_a_line_has_no_blanks_at_its_end_also_with_colours() -> None:
    screen = Screen()
    coloured = Terminal(screen, io.StringIO(), io.StringIO())
    head, *_ = tables.lines([("a", "a long cell")], coloured, ("SERVICE", "REPORT"))
    coloured.say(head)
    assert screen.getvalue().endswith("\x1b[1mREPORT\x1b[0m\n")


def test_a_wide_terminal_shows_everything() -> None:
    assert "…" not in "".join(tables.lines(ROWS, shown_on(200)))


def test_what_a_program_reads_is_never_shortened() -> None:
    lines = tables.lines(ROWS, shown_on(NARROW, io.StringIO()))
    assert "registry.example.com/some/long/path/web:2024-11-16" in lines[0] and "https://shop.example.com/" in lines[0]


@pytest.mark.parametrize("columns", [1, 5, 20])
def test_a_terminal_of_any_width_breaks_no_row(columns: int) -> None:
    assert all(width(line) <= columns for line in tables.lines(ROWS, shown_on(columns)))


def test_a_message_at_the_end_of_a_row_stays_whole() -> None:
    rows = [("1", "2024-11-16", "a message of a node " * 10)]
    assert rows[0][2].rstrip() in tables.lines(rows, shown_on(NARROW), tail=True)[0]


def test_wide_characters_are_counted_as_the_terminal_shows_them() -> None:
    assert width("日本") == 4 and clip("日本語", 5) == "日本…" and clip("日本語", 6) == "日本語"
    assert width("ＡＢ") == 4, "full width"
    assert width("e\u0301") == 1, "a combining accent takes no column"
    assert tables.lines([("日本", "x"), ("ab", "x")], shown_on(NARROW)) == ["日本  x", "ab    x"]


def test_a_cell_cannot_begin_a_line_or_move_the_cursor() -> None:
    (line,) = tables.lines([("a", HOSTILE + "\nNo changes.")], shown_on(0))
    assert not CONTROLS & set(line) and "\n" not in line


def test_ps_and_node_list_break_no_row_at_sixty_columns_n44(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("converged"), containers=(main_of(ports=("100.64.0.1:20003→8080",)),))
        for words in (("ps",), ("node", "list")):
            whole = one.operator.does(*words)
            assert max(map(len, whole.splitlines())) > NARROW, "wide where no terminal is"
            screen = Screen()
            one.operator.terminal = shown_on(NARROW, screen)
            one.operator.does(*words)
            assert max(map(len, screen.getvalue().splitlines())) <= NARROW
            assert len(screen.getvalue().splitlines()) == len(whole.splitlines())
            one.operator.terminal = Terminal(one.operator.out, one.operator.err, io.StringIO(), environ_no_colour=True)

    scene(tmp_path, story)


def test_a_dumb_terminal_gets_neither_colours_nor_live_lines_n44(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", Screen())
    monkeypatch.setenv("TERM", "dumb")
    dumb = system_terminal(no_colour=False)
    assert dumb.paint("red", "x") == "x" and not dumb.is_live()
    monkeypatch.setenv("TERM", "xterm")
    assert system_terminal(no_colour=False).paint("red", "x") != "x" and system_terminal(no_colour=True).is_live()
