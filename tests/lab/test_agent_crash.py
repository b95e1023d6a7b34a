"""S08, R02, R06 on real files: a purge killed at its n-th flush, rename or unlink ends after a restart with one effect.

Which positions there are is found out, not assumed: n grows until a run is not hit. `make soak` takes every one.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from holdfast.adapters.audit_log import at_rest
from tests.fleets.counts import SOAK
from tests.lab import agent_scene
from tests.lab.product import KILLED, PYTHON, strace

pytestmark = pytest.mark.lab

SCENE = [PYTHON, "-m", "tests.lab.agent_scene"]
ROOT = Path(__file__).parents[2]
FEW = (1, 3, 6, 12)
CALLS = (
    ("fdatasync", "fsync", "renameat", "unlinkat", "rmdir", "pwrite64") if SOAK else ("fdatasync", "fsync", "unlinkat")
)
AT_LEAST = {"fdatasync": 6, "fsync": 3, "unlinkat": 4} if SOAK else {"fdatasync": 3, "fsync": 2, "unlinkat": 2}


def positions(call: str) -> Iterator[int]:
    yield from range(1, 1000) if SOAK else FEW


def run(folder: Path, *wrap: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*wrap, *SCENE, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL
    )


def killed_at(call: str, n: int, room: Path) -> bool:
    """Whether the n-th such call came at all; if so, everything that must hold afterwards was looked at."""
    folder = room / f"{call}-{n}"
    agent_scene.prepare(folder)  # each time: an order must not be older than the agent that runs it
    first = run(folder, *strace(folder / "strace.log", [f"{call}:signal=SIGKILL:when={n}"]))
    if first.returncode == 0:
        shutil.rmtree(folder)
        return False
    assert first.returncode in (KILLED, 128 - KILLED), first
    newer = folder / "srv" / "old"
    if not newer.exists() and "condemned" in steps(folder):  # somebody starts anew while the agent is down
        newer.mkdir()
        (newer / "since").write_bytes(b"z")
    fresh = newer / "since"
    was_fresh = fresh.exists()
    second = run(folder)
    assert second.returncode == 0, second.stderr
    (result,) = json.loads(second.stdout)
    assert result["outcome"] == "done", result
    third = run(folder)  # and the same order once more
    assert json.loads(third.stdout) == json.loads(second.stdout)
    assert sorted(os.listdir(folder / "srv")) == (["db", "old"] if was_fresh else ["db"])
    assert (folder / "srv" / "db" / "keep").read_bytes() == b"y" and fresh.exists() == was_fresh
    audit = at_rest.verify(str(folder / "state" / "audit.jsonl"), str(folder / "state" / "audit.head"))
    assert audit.number >= 2
    assert unfinished(folder) == 0
    shutil.rmtree(folder)
    return True


def query(folder: Path, sql: str) -> list[str]:
    path = folder / "state" / "agent.db"
    if not path.exists() or path.stat().st_size == 0:
        return []
    db = apsw.Connection(str(path))
    try:
        return [str(row[0]) for row in db.execute(sql)]
    except apsw.SQLError:  # killed before its tables were there
        return []
    finally:
        db.close()


def steps(folder: Path) -> str:
    return " ".join(query(folder, "SELECT cast(body AS text) FROM steps"))


def unfinished(folder: Path) -> int:
    return len(query(folder, "SELECT id FROM operations WHERE outcome IS NULL"))


@pytest.mark.parametrize("call", CALLS)
def test_a_purge_killed_anywhere_ends_with_one_effect(call: str, tmp_path: Path) -> None:
    numbers = list(positions(call))
    found: list[bool] = []
    with ThreadPoolExecutor(2) as pool:
        while numbers and all(found):
            now, numbers = numbers[:2], numbers[2:]
            found += pool.map(lambda n: killed_at(call, n, tmp_path), now)
    assert sum(found) >= AT_LEAST.get(call, 0), f"{call} was hit {sum(found)} times"
    if SOAK:
        assert not found[-1], "there are more positions than were tried"


@pytest.mark.parametrize(
    "fault", ["fdatasync:error=EIO:when=4+", "pwrite64:error=ENOSPC:when=12+", "write:error=ENOSPC:when=1+"]
)
def test_a_disk_that_fails_is_no_success(fault: str, tmp_path: Path) -> None:
    """R06: nothing is called done that is not on the disk; once the disk is well again it is done, once."""
    folder = tmp_path / "fails"
    agent_scene.prepare(folder)
    broken = subprocess.run(
        ["timeout", "-s", "KILL", "12", *strace(folder / "strace.log", [fault]), *SCENE, str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert broken.returncode != 0 and '"done"' not in broken.stdout, broken
    assert (folder / "srv" / "db" / "keep").exists()
    well = run(folder)
    assert well.returncode == 0 and json.loads(well.stdout)[0]["outcome"] == "done", well.stderr
    assert sorted(os.listdir(folder / "srv")) == ["db"]
    at_rest.verify(str(folder / "state" / "audit.jsonl"), str(folder / "state" / "audit.head"))
