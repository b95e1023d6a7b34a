"""The composition of the command line: chooses products. Everything is imported when first needed."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from io import TextIOWrapper
from typing import TYPE_CHECKING, TextIO

from holdfast.wiring.lean_imports import msgspec  # isort: skip  (before anything else loads msgspec)
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.cli.terminal import Terminal, system_terminal, unsaid
from holdfast.cli.tools import Caller

if TYPE_CHECKING:
    from holdfast.ports.clock import Clock
    from holdfast.ports.disk import Disk
    from holdfast.ports.random_source import RandomSource
    from holdfast.wiring.agents import SystemAgents
    from holdfast.wiring.files import SystemFiles
    from holdfast.wiring.hubs import SystemHubs
    from holdfast.wiring.keys import SystemKeys
    from holdfast.wiring.labs import SystemLabs
    from holdfast.wiring.ledgers import SystemLedgers


def command_line(argv: Sequence[str]) -> int:
    _set_encoding("--json" in argv)
    box = SystemToolbox(system_terminal(no_colour="NO_COLOR" in os.environ), os.environ)
    try:
        return _command(argv, box)
    finally:
        box.close()
        try:
            sys.stderr.flush()
        except OSError:
            _give_up(sys.stderr)


def _set_encoding(as_json: bool) -> None:
    """JSON is UTF-8 everywhere. For people, a character that the terminal lacks is shown as an escape, and bytes of the
    input that are not text are read as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            with suppress(OSError):  # an output that fails already is reported when the command ends
                stream.reconfigure(encoding="utf-8" if as_json else None, errors="backslashreplace")
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="backslashreplace")


def _command(argv: Sequence[str], box: "SystemToolbox") -> int:
    from holdfast.cli import main

    try:
        code = main.run(argv, box)
    except BrokenPipeError:  # `holdfast history | head`: the reader had enough
        code = 141
    try:
        sys.stdout.flush()
    except OSError as trouble:
        _give_up(sys.stdout)
        if isinstance(trouble, BrokenPipeError):
            return 141
        if code == 0:
            main.report(unsaid(trouble), box.terminal, "--json" in argv)
        return code or 1
    return code


def _give_up(stream: TextIO) -> None:
    """What could not be written must not be tried again, and fail again, when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class SystemToolbox:
    """The real world, as far as the command line needs it."""

    def __init__(self, terminal: Terminal, environ: Mapping[str, str]) -> None:
        self.terminal = terminal
        self.environ = environ
        self.disk: Disk = PosixDisk()
        self.clock: Clock = SystemClock()
        self.random: RandomSource = SystemRandom()
        self.caller = Caller()
        self._endings: list[Callable[[], None]] = []  # one for each thing that was opened

    def close(self) -> None:
        """Never fails: by now the command has its result, and what it committed is on the disk."""
        while self._endings:
            with suppress(Exception, KeyboardInterrupt):
                self._endings.pop()()

    def ends_with(self, ending: Callable[[], None]) -> None:
        self._endings.append(ending)

    @cached_property
    def hubs(self) -> "SystemHubs":
        from holdfast.wiring.hubs import SystemHubs

        return SystemHubs(self)

    @cached_property
    def ledgers(self) -> "SystemLedgers":
        from holdfast.wiring.ledgers import SystemLedgers

        return SystemLedgers(self)

    @cached_property
    def keys(self) -> "SystemKeys":
        from holdfast.wiring.keys import SystemKeys

        return SystemKeys(self)

    @cached_property
    def agents(self) -> "SystemAgents":
        from holdfast.wiring.agents import SystemAgents

        return SystemAgents(self)

    @cached_property
    def labs(self) -> "SystemLabs":
        from holdfast.wiring.labs import SystemLabs

        return SystemLabs(self)

    @cached_property
    def files(self) -> "SystemFiles":
        from holdfast.wiring.files import SystemFiles

        return SystemFiles()


__all__ = ["SystemToolbox", "command_line", "msgspec"]
