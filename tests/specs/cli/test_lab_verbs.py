"""`holdfast lab`: which lab a command is for, and what it says to do next."""

import io
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, cast

import pytest

from holdfast.cli import main
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox


class Recorded:
    """Notes what is called, and in which directory."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.directory = ""

    def at(self, directory: str) -> "Recorded":
        self.directory = directory
        return self

    def run_inside(self, node: str, words: Sequence[str]) -> int:
        self.calls.append((self.directory, node, *words))
        return 0

    def curl(self, url: str, more: Sequence[str]) -> int:
        self.calls.append((self.directory, url, *more))
        return 0

    def up(self, nodes: str, bare: bool) -> None:
        pass

    def kill(self, target: str, agent_only: bool) -> None:
        pass

    def cut(self, node: str, other: str | None) -> None:
        pass


def ran(*words: str) -> tuple[int, str, list[tuple[Any, ...]]]:
    lab, err = Recorded(), io.StringIO()
    box = Namespace(terminal=Terminal(io.StringIO(), err, io.StringIO()), labs=lab, environ={})
    return main.run(("lab", *words), cast(Toolbox, box)), err.getvalue(), lab.calls


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("exec w1 -- ls -l", (".lab", "w1", "ls", "-l")),
        ("exec w1 ls -l", (".lab", "w1", "ls", "-l")),
        ("exec w1 ls --dir e -- x", (".lab", "w1", "ls", "--dir", "e", "--", "x")),
        ("--dir d exec w1 -- ls --dir e", ("d", "w1", "ls", "--dir", "e")),
        ("exec --dir d w1 -- ls -- x", ("d", "w1", "ls", "--", "x")),
        ("exec w1 --dir d -- ls --dir e", ("d", "w1", "ls", "--dir", "e")),
        ("exec w1 --dir=d -- ls", ("d", "w1", "ls")),
        ("curl https://x/ --dir d", (".lab", "https://x/", "--dir", "d")),
    ],
)
def test_the_flag_of_the_lab_is_not_part_of_the_command(line: str, call: tuple[str, ...]) -> None:
    """Also where the remedy of `lab exec` puts it."""
    assert ran(*line.split()) == (0, "", [call])


def test_without_a_command_the_remedy_works_in_that_lab() -> None:
    code, said, calls = ran("exec", "w1", "--dir", "a b")
    assert (code, calls) == (2, []) and "remedy: holdfast lab exec w1 --dir 'a b' -- CMD" in said
    assert ran("exec", "w1", "--dir")[0] == 2
    assert ran("exec", "w1", "--dir", "a b", "--", "true")[2] == [("a b", "w1", "true")]


def test_advice_names_the_lab_that_was_given() -> None:
    assert "eval \"$(holdfast lab env --dir 'a b')\"" in ran("up", "--dir", "a b")[1]
    assert "`holdfast lab start w1 --dir 'a b'`" in ran("kill", "w1", "--dir", "a b")[1]
    assert "`holdfast lab heal --dir 'a b'`" in ran("cut", "w1", "--dir", "a b")[1]
    assert "`holdfast lab heal`" in ran("cut", "w1")[1]
