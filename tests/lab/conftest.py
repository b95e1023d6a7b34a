"""Labs that several files share, and an end for processes that outlive their agents on purpose.

Files that share a lab run in one worker: see SHARED in tests/conftest.py.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fleets.deploy_scene import DeployScene, deploy_scene
from tests.fleets.traffic_scene import TrafficScene, traffic_scene

OURS = ("supervisor.py", "envoy", "dnsmasq")  # the supervisor first: it would start the others again


def of_this_run(base: str, program: str) -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            words = Path("/proc", name, "cmdline").read_bytes().decode(errors="replace").split("\0")
            if any(base in word for word in words) and any(os.path.basename(word) == program for word in words):
                found.append(int(name))
    return found


@pytest.fixture(scope="session")
def deploy_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployScene]:
    """A test leaves the hub and the agents running, and the foreign container as it was."""
    with deploy_scene(tmp_path_factory.mktemp("deploy")) as made:
        yield made


@pytest.fixture(scope="session")
def traffic_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrafficScene]:
    """A test leaves every node, agent and proxy running; each file deploys its services itself."""
    with traffic_scene(tmp_path_factory.mktemp("traffic")) as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def nothing_outlives_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    base = str(tmp_path_factory.getbasetemp())
    for program in OURS:
        for pid in of_this_run(base, program):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
