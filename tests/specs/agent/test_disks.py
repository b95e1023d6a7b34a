"""The keeper of a node's disks: a report goes up when a disk begins to fill or has room again, and no sooner."""

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.agent.disks.keeper import Disks
from holdfast.agent.findings import Findings
from holdfast.model.disk_room import DiskRoom


def room(free_gib: int) -> DiskRoom:
    return DiskRoom("data", "/data", 1, (100 - free_gib) << 30, free_gib << 30, 50, 50)


def test_a_report_is_asked_for_when_it_begins_and_when_it_ends_only() -> None:
    reports: list[str] = []
    findings = Findings(lambda: 0.0)
    keeper = Disks(
        look=lambda: (), facts=MemoryJournal(), findings=findings, report=lambda: reports.append(""), node="w1"
    )
    counts = []
    for free_gib in (50, 9, 8, 8, 14, 16, 50):
        keeper._judge([room(free_gib)])
        counts.append((len(reports), len(findings.all())))
    assert counts == [(0, 0), (1, 1), (1, 1), (1, 1), (1, 1), (2, 0), (2, 0)]
