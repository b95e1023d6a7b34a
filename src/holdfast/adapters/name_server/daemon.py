"""A dnsmasq process that outlives the agent: start it, find it again, end it. Never touches a foreign one.

The process is identified by its recorded pid, start time and configuration file. Without that record it is a dnsmasq
in our mount namespace with exactly that configuration file. Each has a random mark in its command line and returns it
in a TXT record, so that an answer of another server is not mistaken for its answer.
"""

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from holdfast.adapters.runtime.process import Process, arguments, known, send, with_argument
from holdfast.adapters.runtime.service import OURS

END_S = 2.0
LOOK_S = 0.01
LOG_BYTES_MAX = 256 << 10
WORDS_MAX = 300
MARK = "--txt-record="


class Daemon:
    def __init__(self, program: str, configuration: str) -> None:
        self._program = program
        self._argument = f"--conf-file={configuration}"
        self._note_path = f"{configuration}.pid"
        self._log_path = f"{configuration}.log"
        self._child: subprocess.Popen[bytes] | None = None

    def found(self) -> list[Process]:
        """All our running processes. More than one only if another program interfered."""
        self._bury()
        if self._child is not None and (mine := known(self._child.pid)) is not None:
            return [mine]
        noted = self._noted()
        return [noted] if noted is not None else [one for one in with_argument(self._argument) if self._is_ours(one)]

    def start(self, name: str) -> Process | None:
        """`name` is the TXT record that returns its mark. None if it ended at once (see `last_words`). Raises OSError
        if the program does not exist."""
        with open(self._log_path, "ab") as log:
            log.truncate(0)
            self._child = subprocess.Popen(
                [self._program, self._argument, f"{MARK}{name},{secrets.token_hex(16)}"],
                env={key: value for key, value in os.environ.items() if key not in OURS},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the agent's terminal must not reach it
            )
        process = known(self._child.pid)
        if process is not None:
            with suppress(OSError):  # without the record it is found by its configuration
                self._note(process)
        return process

    async def end(self, processes: Sequence[Process], frozen: bool = False) -> None:
        for process in processes:
            send(process, signal.SIGKILL if frozen else signal.SIGTERM)
            for _ in range(int(END_S / LOOK_S)):
                self._bury()
                if known(process.pid) != process:
                    break
                await asyncio.sleep(LOOK_S)
            else:
                send(process, signal.SIGKILL)
                await asyncio.sleep(LOOK_S)
                self._bury()

    def read_again(self, process: Process) -> bool:
        """Make it read its records again; False if the process is gone."""
        return send(process, signal.SIGHUP)

    def mark(self, process: Process) -> tuple[str, str]:
        """The name of its TXT record, and the text that it must return."""
        marks = [word.removeprefix(MARK) for word in arguments(process.pid) if word.startswith(MARK)]
        name, _, text = (marks or [""])[0].partition(",")
        return name, text

    def last_words(self) -> str:
        with suppress(OSError), open(self._log_path, encoding="utf-8", errors="replace") as log:
            return log.read()[-WORDS_MAX:].strip()
        return ""

    def shorten_log(self) -> None:
        """It logs a line with every change, and no other program rotates this log."""
        with suppress(OSError):
            if os.stat(self._log_path).st_size > LOG_BYTES_MAX:
                os.truncate(self._log_path, 0)

    def forget(self) -> None:
        for path in (self._note_path, self._log_path):
            with suppress(OSError):
                os.unlink(path)

    def _bury(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            self._child = None

    def _is_ours(self, process: Process) -> bool:
        """Nodes on one machine may see different files under one path: the mount namespace must be ours."""
        words = arguments(process.pid)
        named = os.path.basename(words[0]) == os.path.basename(self._program) if words else False
        try:
            here = os.stat(f"/proc/{process.pid}/ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino
        except OSError:
            return False
        return named and self._argument in words and here and known(process.pid) == process

    def _note(self, process: Process) -> None:
        with open(f"{self._note_path}.new", "w", encoding="ascii") as file:
            file.write(f"{process.pid} {process.started}\n")
        os.replace(f"{self._note_path}.new", self._note_path)

    def _noted(self) -> Process | None:
        try:
            with open(self._note_path, encoding="ascii") as file:
                pid, started = map(int, file.read(64).split())
        except (OSError, ValueError):
            return None
        process = known(pid)
        return process if process == Process(pid, started) and self._is_ours(process) else None
