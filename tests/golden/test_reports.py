"""Reports, check-ins, audit lines and alerts of running nodes have the keys, the order and the types they had."""

from typing import Any

import msgspec

from tests.golden import masks, stored
from tests.golden.live import story


def test_reports() -> None:
    """Of workers, edges and DNS servers: running, stopped, standing in, retired, parked."""
    found = {
        f"{moment}: {node}": masks.shape(report)
        for moment, reports in story().reports.items()
        for node, report in reports.items()
    }
    stored.check("reports/reports.json", stored.pretty(found))


def test_values_that_programs_read_in_reports() -> None:
    """Phases, steps, codes and statuses: words that hub and command line decide by."""
    words: dict[str, set[str]] = {}
    for reports in story().reports.values():
        for report in reports.values():
            _collect(report, words)
    found = {field: sorted(seen) for field, seen in sorted(words.items())}
    stored.check("reports/words.json", stored.pretty(found))


WORDS = {"phase", "outcome", "status", "code", "health", "state", "mode", "authority", "step", "name"}


def _collect(value: Any, words: dict[str, set[str]]) -> None:
    if isinstance(value, list):
        for inner in value:
            _collect(inner, words)
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in WORDS and isinstance(inner, str):
                words.setdefault(key, set()).add(inner)
            _collect(inner, words)


def test_check_ins() -> None:
    """Of all of the story: the different forms, with the pulse that is inside."""
    messages = [msgspec.json.decode(msgspec.json.encode(message)) for message in story().check_ins]
    pulses = [msgspec.json.decode(message.pulse.pulse) for message in story().check_ins if message.pulse is not None]
    for pulse in pulses:
        pulse["results"] = {"<id>": "string"} if pulse.get("results") else {}
    found = {"check-ins": _every_key(messages), "pulses": _every_key(pulses)}
    stored.check("reports/check_ins.json", stored.pretty(found))


def _every_key(many: list[dict[str, Any]]) -> dict[str, Any]:
    """Each key that occurs, with every form of its value."""
    found: dict[str, list[Any]] = {}
    for one in many:
        for key, inner in one.items():
            found.setdefault(key, []).append(inner)
    return {key: masks.shape(inners) for key, inners in sorted(found.items())}


def test_audit_lines() -> None:
    lines = [msgspec.json.decode(line) for line in story().audit]
    acts = sorted({f"{line['event']['action']} {line['event'].get('result', 'done')}" for line in lines})
    stored.check("reports/audit.json", stored.pretty({"forms": masks.shape(lines), "acts": acts}))


def test_alerts() -> None:
    alerts = story().alerts
    stored.check("reports/alerts.json", stored.pretty({"form": masks.shape(alerts), "said": _said(alerts)}))


def _said(alerts: list[dict[str, Any]]) -> list[str]:
    return sorted({f"{alert['level']} {alert['code']} {alert['address']}" for alert in alerts})


def test_events_in_the_log_of_an_agent() -> None:
    found = {event: sorted(fields) for event, fields in sorted(story().events.items())}
    stored.check("reports/events.json", stored.pretty(found))
