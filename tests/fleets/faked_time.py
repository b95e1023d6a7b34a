"""A lab whose hub, agents and commands are told the time by libfaketime; proxies and clients have the real one.

It is begun in the past and only ever moved ahead, as time does: what is issued in it is valid for those who have the
real time, too, and no node has to forget a time that it has seen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.traffic_scene import NODES, TrafficScene

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"

# Whoever starts something by sys.executable starts this again, so that the whole lab is reached. Not the lab's own
# verbs and not the proxy's supervisor: what they start would inherit it.
_INTERPRETER = """#!/bin/bash
unset LD_PRELOAD
case " $* " in
*" holdfast lab "* | *supervisor.py*) ;;
*)
    export LD_PRELOAD={faketime} FAKETIME_TIMESTAMP_FILE={now} FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1
    export PYTHONPATH={path}
    ;;
esac
exec -a "$0" {python} "$@"
"""

# libfaketime moves the end of a sleep even where the clock of the sleep is not to be moved.
_PATIENCE = """import select
import time

time.sleep = lambda seconds: select.select((), (), (), seconds) and None
"""


class FakedTime:
    """An interpreter in a folder of its own, and the file that says how far its time is from ours."""

    def __init__(self, folder: Path, days: int) -> None:
        (folder / "bin").mkdir(parents=True)
        (folder / "patience").mkdir()
        (folder / "patience" / "sitecustomize.py").write_text(_PATIENCE)
        home = Path(sys.executable).parents[1]
        (folder / "pyvenv.cfg").write_text((home / "pyvenv.cfg").read_text())
        (folder / "lib").symlink_to(home / "lib")
        self._file = folder / "now"
        self.python = folder / "bin" / "python"
        changed = os.environ.get("PYTHONPATH", "")  # a changed copy of the product under test, for daemons as well
        path = f"{folder / 'patience'}:{changed}".rstrip(":")
        told = {"faketime": FAKETIME, "now": self._file, "path": path, "python": sys.executable}
        self.python.write_text(_INTERPRETER.format(**told))
        self.python.chmod(0o755)
        self.is_in(days)

    def is_in(self, days: int) -> None:
        """From now on it is so many days from today."""
        self._write(f"{days:+d}d\n")

    def is_ahead(self, seconds: int) -> None:
        self._write(f"{seconds:+d}s\n")

    def _write(self, text: str) -> None:
        """In one step: half of it is never read."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(text)
        os.replace(draft, self._file)


class SceneInFakedTime(TrafficScene):
    def __init__(self, made: LabUnderTest, room: Path, time: FakedTime) -> None:
        super().__init__(made, room)
        self.time = time


@contextmanager
def scene_in_faked_time(room: Path, days: int, name: str = "aged") -> Iterator[SceneInFakedTime]:
    """As `traffic_scene`, begun so many days from today."""
    time = FakedTime(room / "time", days)
    with lab(room, nodes=NODES, name=name, python=str(time.python)) as made:
        scene = SceneInFakedTime(made, room, time)
        try:
            made.alert(scene.ear.url)
            made.lab("fast").ok()
            yield scene
        finally:
            scene.ear.close()
