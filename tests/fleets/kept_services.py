"""End podman services that killed agents of a test left: they outlive their agent, and the next one would find them."""

import os
import signal
from contextlib import suppress
from pathlib import Path


def end_kept_services(run_dir: Path) -> None:
    for note in run_dir.glob("podman.sock.pid"):
        with suppress(OSError, ValueError):
            os.kill(int(note.read_text().split()[0]), signal.SIGTERM)
