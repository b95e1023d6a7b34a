"""How the whole suite runs: the order of its files, SIGINT as a terminal gives it, and a soak that can be resumed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from tests.fleets.counts import SOAK
from tests.fleets.soak import Passed, ResumedSoak

ROOT = Path(__file__).parents[1]

# Files that take longest come first, so that no worker begins one of them when the others are nearly done.
LONGEST_FIRST = (
    "lab/test_guides.py",
    "lab/test_fleet_faults.py",
    "lab/test_booted.py",
    "lab/test_traffic_faults.py",
    "lab/test_traffic_certificates.py",
    "lab/test_traffic_protocols.py",
    "lab/test_traffic.py",
    "lab/test_traffic_undeploy.py",
    "lab/test_logs.py",
    "lab/test_deploy.py",
    "lab/test_runtime_faults.py",
    "lab/test_lab.py",
    "lab/test_lab_fleet.py",
    "lab/test_tour.py",
    "lab/test_traffic_l4.py",
    "lab/test_agent_process.py",
    "lab/test_deploy_crash.py",
    "lab/test_agent_crash.py",
    "lab/test_dial.py",
    "scenarios/test_simulation.py",
    "lab/test_convergence_podman.py",
    "scenarios/test_schemathesis.py",
    "lab/test_power_cut.py",
)


# Files that share a lab run in one worker, one after the other.
SHARED = {
    "tests/lab/test_logs.py": "deploy_lab",
    "tests/lab/test_deploy.py": "deploy_lab",
    "tests/lab/test_schedules.py": "deploy_lab",
    "tests/lab/test_volumes.py": "deploy_lab",
    "tests/lab/test_checkpoints.py": "deploy_lab",
    "tests/lab/test_owners.py": "deploy_lab",
    "tests/lab/test_pasted_in_a_lab.py": "deploy_lab",
    "tests/lab/test_traffic.py": "traffic_lab",
    "tests/lab/test_green.py": "traffic_lab",
    "tests/lab/test_alerts.py": "traffic_lab",
    "tests/lab/test_not_green.py": "traffic_lab",
    "tests/lab/test_traffic_undeploy.py": "traffic_lab",
    "tests/lab/test_traffic_protocols.py": "traffic_lab",
}


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """As `--dist loadfile`, with files that share a lab as one; in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return SHARED.get(file, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """A suite that was started in the background inherits an ignored SIGINT, and would hand it on to what it tests."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if SOAK:
        config.pluginmanager.register(ResumedSoak(Passed(ROOT / "build" / "soak-passed", ROOT)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {str(ROOT / "tests" / name): at for at, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(str(item.path), len(place)))
