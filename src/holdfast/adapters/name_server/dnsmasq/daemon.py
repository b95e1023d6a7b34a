"""A dnsmasq process that outlives the agent: start it, find it again, end it. Never touches a foreign one.

The process is identified by its recorded pid, start time and configuration file. Without that record it is a dnsmasq
in our mount namespace with exactly that configuration file. Each has a random mark in its command line and returns it
in a TXT record, so that an answer of another server is not mistaken for its answer.
"""

import os
import secrets
import signal
from collections.abc import Sequence
from contextlib import suppress

from holdfast.adapters.process import kept
from holdfast.adapters.process.kept import Kept
from holdfast.adapters.process.process import Process, arguments, known, send, with_argument

END_S = 2.0
LOG_BYTES_MAX = 256 << 10
MARK = "--txt-record="


class Daemon:
    def __init__(self, program: str, configuration: str) -> None:
        self._program = program
        self._argument = f"--conf-file={configuration}"
        self._kept = Kept(configuration)
        self.last_words, self.forget = self._kept.last_words, self._kept.forget

    def found(self) -> list[Process]:
        """All our running processes. More than one only if another program interfered."""
        if (child := self._kept.child()) is not None:
            return [child]
        noted = self._kept.noted()
        if noted is not None and self._is_ours(noted):
            return [noted]
        return [one for one in with_argument(self._argument) if self._is_ours(one)]

    def start(self, name: str) -> None:
        """`name` is the TXT record that returns its mark. If it ends at once, `last_words` says why. Raises OSError if
        the program does not exist."""
        mark = f"{MARK}{name},{secrets.token_hex(16)}"
        self._kept.start([self._program, self._argument, mark], os.environ)

    async def end(self, processes: Sequence[Process], frozen: bool = False) -> None:
        for process in processes:
            await kept.end(process, END_S, signal.SIGKILL if frozen else signal.SIGTERM)
        self._kept.child()  # reaps it

    def read_again(self, process: Process) -> bool:
        """Make it read its records again; False if the process is gone."""
        return send(process, signal.SIGHUP)

    def mark(self, process: Process) -> tuple[str, str]:
        """The name of its TXT record, and the text that it must return."""
        marks = [word.removeprefix(MARK) for word in arguments(process.pid) if word.startswith(MARK)]
        name, _, text = (marks or [""])[0].partition(",")
        return name, text

    def shorten_log(self) -> None:
        """It logs a line with every change, and no other program rotates this log."""
        with suppress(OSError):
            if os.stat(self._kept.log).st_size > LOG_BYTES_MAX:
                os.truncate(self._kept.log, 0)

    def _is_ours(self, process: Process) -> bool:
        """Nodes on one machine may see different files under one path: the mount namespace must be ours."""
        words = arguments(process.pid)
        named = os.path.basename(words[0]) == os.path.basename(self._program) if words else False
        try:
            here = os.stat(f"/proc/{process.pid}/ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino
        except OSError:
            return False
        return named and self._argument in words and here and known(process.pid) == process
