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
from holdfast.adapters.process.process import Process, arguments, send

END_S = 2.0
LOG_BYTES_MAX = 256 << 10
MARK = "--txt-record="


class Daemon:
    def __init__(self, program: str, configuration: str) -> None:
        self._program = program
        self._argument = f"--conf-file={configuration}"
        self._kept = Kept(configuration, program, self._argument)
        self.found, self.last_words, self.forget = self._kept.found, self._kept.last_words, self._kept.forget

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
