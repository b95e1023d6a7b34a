"""Every part of the bench runs once at its smallest size: no figure is judged, no part is left to rot."""

import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.measurements import PARTS
from tests.fleets.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
TOGETHER = 3  # most of a part's time is waiting for containers and connections
PART_S_MAX = 400.0
NAMES = tuple(part.name for part in PARTS)
SLOWEST_FIRST = ("traffic", "deploy", "idle", "latency", "herd")

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

Done = subprocess.CompletedProcess[str]


def run(*words: str) -> Done:
    """A part that takes too long is interrupted and not killed, so that it takes its lab down."""
    pipe = subprocess.PIPE
    command = [sys.executable, *words]
    part = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
    try:
        out, err = part.communicate(timeout=PART_S_MAX)
    except subprocess.TimeoutExpired:
        part.send_signal(signal.SIGINT)
        part.communicate(timeout=PATIENCE_S)
        raise
    return subprocess.CompletedProcess(command, part.returncode, out, err)


@pytest.fixture(scope="module")
def runs() -> Iterator[Mapping[str, "Future[Done]"]]:
    ordered = sorted(NAMES, key=lambda name: name not in SLOWEST_FIRST)
    with ThreadPoolExecutor(TOGETHER) as workers:
        yield {name: workers.submit(run, "bench/run.py", "--smallest", "--only", name) for name in ordered}


@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_the_bench_ends_well_and_prints_its_figures(name: str, runs: Mapping[str, "Future[Done]"]) -> None:
    done = runs[name].result(PART_S_MAX)
    assert done.returncode == 0, done.stderr
    *table, document = done.stdout.splitlines()
    figures = json.loads(document)["figures"]
    assert figures
    for figure in figures:
        assert math.isfinite(figure["ours"])
        assert any(line.startswith(f"| {figure['name']} ") for line in table)


def test_a_checkout_is_compared_with_itself() -> None:
    done = run("bench/compare.py", str(ROOT), str(ROOT), "--rounds", "2", "--only", "starts")
    *table, document = done.stdout.splitlines()
    figures = json.loads(document)["figures"]
    assert done.returncode == any(figure["worse"] for figure in figures), done.stderr  # a busy machine may say "worse"
    for figure in figures:
        assert len(figure["old"]) == len(figure["new"]) == 2
        assert any(line.startswith(f"| {figure['name']} ") for line in table)
    assert "holdfast --version" in {figure["name"] for figure in figures}
