"""Paste what remedies say, beside a lab or in other real processes.

tests/scenarios/test_pasted_remedies.py reads the first argument of every `pastes` and `runs` of the tests.
"""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from holdfast.lab import node as lab_node
from holdfast.lab import podman_files
from tests.architecture.remedies import commands
from tests.fleets.lab import CALL_S, LabUnderTest
from tests.fleets.pasting import Result, Seat
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome


class Ended(Protocol):
    @property
    def code(self) -> int: ...


Done = TypeVar("Done", bound=Ended)


def pastes(remedy: str, printed: Sequence[str], run: Callable[[str], Done], **fill: str) -> list[Done]:
    """Exactly the commands of the printed remedy, one after the other; {} in `remedy` is any value."""
    wanted = ".*".join(map(re.escape, remedy.split("{}")))
    found = [one for one in printed if re.fullmatch(wanted, one)]
    assert found, (remedy, printed)
    lines = commands(found[0])
    assert lines, found[0]
    return [run(filled(line, fill)) for line in lines]


def runs(command: str, values: Sequence[str], run: Callable[[str], Done], repeated: bool = False, **fill: str) -> Done:
    """A command as remedies have it, with values for each {}; it succeeds, `repeated` if it is typed until it does."""
    for value in values:
        command = command.replace("{}", value, 1)
    tried: list[Done] = []

    def succeeds() -> bool:
        tried.append(run(filled(command, fill)))
        return tried[-1].code == 0

    if repeated:
        wait_until(succeeds, lambda: tried[-1])
    else:
        assert succeeds(), (command, tried)
    return tried[-1]


def filled(command: str, fill: Mapping[str, str]) -> str:
    """With the values for words in capitals."""
    for word, value in fill.items():
        command = re.sub(rf"(?<![\w-]){re.escape(word)}\b", value.replace("\\", r"\\"), command)
    return command


class LabSeat(Seat):
    """Commands of Holdfast run in this process, as in `Seat`; those of the lab itself and of a node do not."""

    def __init__(self, made: LabUnderTest, **more: str) -> None:
        super().__init__(made.home)
        self.made = made
        self._inits: dict[str, int] = {}
        self.environ = {**made.env, "USER": "root", **more}

    def _run(self, command: str) -> Result:
        if not command.startswith("holdfast lab "):
            return super()._run(command)
        done = self.made.lab(*command.removeprefix("holdfast lab ").split())
        return Result(done.code, done.out, done.err)

    def on(self, node: str, line: str) -> Result:
        """A line typed into a shell on that node; `holdfast` there is the product under test."""
        done = self.made.inside(node, "bash", "-c", line) if "holdfast" in line else self._enter(node, line)
        return Result(done.code, done.out, done.err)

    def _enter(self, node: str, line: str) -> Outcome:
        """As `LabUnderTest.enter`, with the node's process looked up once."""
        if node not in self._inits:
            self._inits[node] = int(self.made.node(node)["pids"]["node"])
        words = [*lab_node.entering(self._inits[node]), "bash", "-c", line]
        env = {**self.environ, **podman_files.variables()}
        done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CALL_S)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def _at(self, node: str) -> Callable[[str], Result]:
        return (lambda line: self.on(node, line)) if node else self.run

    def pastes(self, remedy: str, printed: Result, on: str = "", **fill: str) -> list[Result]:
        """Without --fleet and --hub, which the environment of a lab has."""
        where = f" --fleet {self.environ.get('HOLDFAST_FLEET')} --hub {self.environ.get('HOLDFAST_HUB')}"
        return pastes(remedy, [one.replace(where, "") for one in printed.remedies], self._at(on), **fill)

    def runs(self, command: str, *values: str, on: str = "", typed: str = "", **fill: str) -> Result:
        at = self._at(on)
        return runs(command, values, lambda line: at(f"echo {typed} | {line}" if typed else line), False, **fill)
