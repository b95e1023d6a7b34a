"""The reference page names every alert and every finding there is, and no other."""

import re
from pathlib import Path

from holdfast.adapters.notifier.memory import MemoryNotifier
from holdfast.hub.alerts.line import Line
from holdfast.hub.watchers import fleet_findings, missing_backups, standby
from holdfast.model.alert import Alert
from holdfast.model.alert_codes import OVER, RECOVERY_OF
from holdfast.reconcile import hub_silence
from holdfast.status import disks
from holdfast.status.edges import findings as edge_findings
from holdfast.status.services import findings as service_findings

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "alerts.md").read_text()
ELSEWHERE = {"needs_operator", "alert_undelivered", "word_unverified", "word_withheld"} | {
    "word_old",
    "key_not_recorded",
    disks.CODE,
    missing_backups.MISSING,
}


def codes(text: str) -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


def test_every_alert_and_every_finding_is_explained() -> None:
    alerts, findings = PAGE.split("## Findings")
    assert OVER[disks.CODE] == disks.OVER
    assert codes(alerts) == set(RECOVERY_OF) | set(hub_silence.CODES.values())
    tables = (fleet_findings.ROWS, standby.ROWS, service_findings.ROWS, edge_findings.ROWS)
    assert codes(findings) == set().union(*tables) | ELSEWHERE


def test_whoever_is_told_of_a_trouble_is_told_that_it_is_over() -> None:
    def alert(code: str) -> Alert:
        return Alert(code, "alarm", "", "node.w1", "", "", 0.0)

    everything, some, others = (Line(MemoryNotifier(), on) for on in ((), ("node_silent",), ("backup_old",)))
    for code, ended in RECOVERY_OF.items():
        assert everything.wants(alert(code)) and not others.wants(alert(code))
        assert some.wants(alert(code)) == ("node_silent" in (code, ended))
