"""The findings of a node: many of one kind hide no other, and one that had no room comes when there is room."""

from holdfast.agent.findings import FINDINGS_MAX, KEPT_MAX, Findings


def full(count: int = FINDINGS_MAX + 20) -> Findings:
    findings = Findings(lambda: 7.0)
    for number in range(count):
        assert findings.add("schedule_missed", "missed", "run it", f"schedule.web.job-{number:04}")
    return findings


def test_many_findings_of_one_kind_hide_no_other() -> None:
    findings = full()
    assert findings.add("runtime_unavailable", "podman is gone", "start it")
    shown = findings.all()
    assert len(shown) == FINDINGS_MAX and "runtime_unavailable" in {one.code for one in shown}
    (cut,) = [one for one in shown if one.code == "report_cut"]
    assert cut.message.startswith(
        f"this node has {FINDINGS_MAX + 21} findings, and its report names {FINDINGS_MAX - 1}"
    )


def test_a_finding_without_room_is_shown_when_others_are_over() -> None:
    findings = full()
    for number in range(40):
        findings.clear("schedule_missed", f"schedule.web.job-{number:04}")
    shown = [one.address for one in findings.all()]
    assert shown == [f"schedule.web.job-{number:04}" for number in range(40, FINDINGS_MAX + 20)]


def test_no_node_keeps_findings_without_end() -> None:
    findings = full(KEPT_MAX)
    assert not findings.add("schedule_missed", "missed", "run it", "schedule.web.more")
    changes = findings.changes
    assert not findings.add("schedule_missed", "missed", "run it", "schedule.web.job-0000")
    assert findings.changes == changes


def test_each_finding_is_in_the_log_once_and_so_is_its_end() -> None:
    """While the hub is silent no other place shows it: an alert that cannot be delivered, for example (X17)."""
    said: list[tuple[str, object]] = []
    findings = Findings(lambda: 7.0, lambda event, fields: said.append((event, fields["code"])))
    for _ in range(3):
        findings.add("alert_undelivered", "no route to host", "look", "alert.ops")
    findings.add("alert_undelivered", "another reason", "look", "alert.ops")
    findings.clear("alert_undelivered", "alert.ops")
    findings.clear("alert_undelivered", "alert.ops")
    assert said == [("finding", "alert_undelivered"), ("finding_gone", "alert_undelivered")]
