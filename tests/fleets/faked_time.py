"""A lab whose hub, agents and commands are told the time by libfaketime; proxies and clients have the real one.

It is begun in the past and only ever moved ahead, as time does: what is issued in it is valid for those who have the
real time, too, and no node has to forget a time that it has seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.fleets.fault_scene import Ear
from tests.fleets.lab import DOWN_S_MAX, UP_S_MAX, LabUnderTest, command, traces
from tests.fleets.traffic_scene import CALL_S, NODES, TrafficScene
from tests.lab.product import Outcome

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
        """From now on it is so many days from today. In one step: nobody reads half of it."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(f"{days:+d}d\n")
        os.replace(draft, self._file)


@dataclass(frozen=True)
class LabInFakedTime(LabUnderTest):
    python: str = field(default=sys.executable, kw_only=True)

    def _call(self, words: list[str], env: Mapping[str, str], timeout_s: float) -> Outcome:
        return super()._call([self.python, *words[1:]], env, timeout_s)


class SceneInFakedTime(TrafficScene):
    def __init__(self, made: LabUnderTest, room: Path, time: FakedTime) -> None:
        super().__init__(made, room)
        self.time = time

    def run(self, *words: str, timeout_s: float = CALL_S) -> Outcome:
        done = subprocess.run(
            [str(self.time.python), *command(*words)[1:]], cwd=self.made.home, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout_s,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr)


@contextmanager
def scene_in_faked_time(room: Path, days: int, name: str = "aged") -> Iterator[SceneInFakedTime]:
    """As `traffic_scene`, begun so many days from today."""
    time = FakedTime(room / "time", days)
    made = LabInFakedTime(room / name, room / f"{name}-home", python=str(time.python))
    made.home.mkdir()
    lab_id, ear = "", None
    try:
        made.lab("up", "--nodes", NODES, timeout_s=UP_S_MAX).ok()
        lab_id = made.id
        scene = SceneInFakedTime(made, room, time)
        ear = scene.ear
        _listen(scene, ear)
        yield scene
    finally:
        if ear is not None:
            ear.close()
        made.lab("down", timeout_s=DOWN_S_MAX).ok()
    assert traces(made.dir, lab_id) == []


def _listen(scene: TrafficScene, ear: Ear) -> None:
    path = scene.fleet / "fleet.toml"
    path.write_text(f'{path.read_text()}\n[[alerts]]\nname = "ear"\napprise = "{ear.url}"\n')
    scene.run("apply", "--yes").ok()
    scene.made.lab("fast").ok()
