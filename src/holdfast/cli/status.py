"""`holdfast status`: what the hub serves, how the nodes are, and everything that is wrong."""

from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.cli import fleet_view, session, show_finding
from holdfast.cli.copies import copies
from holdfast.cli.flags import Parser
from holdfast.cli.moment import rfc3339
from holdfast.cli.node_list import describe
from holdfast.cli.terminal import harmless
from holdfast.cli.testimony import Testimony, aged, hear, recorded_key, unheard
from holdfast.cli.toolbox import Toolbox
from holdfast.errors import HoldfastError
from holdfast.hub import service_findings
from holdfast.model.applied import Applied
from holdfast.model.hub_status import HubStatus, StatusFinding
from holdfast.model.invite import decode_invite
from holdfast.ports.hub_link import FleetReader, HubReader
from holdfast.trust.enrolment import RECORD_S

DETAILS = """\
Served revision, quarantined resources, the health of the nodes, every service that is not as applied (what is applied,
what serves, which step failed), and every other finding with its code, age and remedy. What
nodes say is verified on this machine: a hub that shows old or forged words of a node is a finding itself.

examples:
  holdfast status
  holdfast status --hub https://hub.example.com:9555 --json
"""


def declare(parser: Parser) -> None:
    """Takes nothing of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    _, hub = fleet_view.reached(args, box)
    found = hub.status()
    applied, trouble = _applied(hub, args, box)
    nodes, ready = _nodes(hub, applied, box)
    own = [*trouble, *doubts(nodes)]
    if applied is not None:
        own += unrecorded(nodes, applied, box.clock.now_s())
        own += not_as_applied(nodes, applied, box.clock.now_s())
    findings = merged(found.findings, own)
    if args.json:
        box.terminal.say(msgspec.json.encode(_document(found, nodes, applied, findings, ready)).decode())
        return 0
    served = ", ".join(f"{count} {kind}" for kind, count in sorted(found.resources.items())) or "nothing"
    box.terminal.say(harmless(f"serving revision {found.serving.number} from {found.source}: {served}"))
    if found.head != found.serving:
        box.terminal.say(f"the ledger's head is revision {found.head.number}")
    if nodes and isinstance(hub, FleetReader):
        box.terminal.say(harmless(_summary(nodes, ready)))
    for finding in findings:
        box.terminal.say(show_finding.text(finding, box.terminal, _since(finding)))
    return 0


def _applied(hub: HubReader, args: Namespace, box: Toolbox) -> tuple[Applied | None, list[StatusFinding]]:
    """Verified where it comes from a hub; one that cannot be believed is a finding, and no node is believed then."""
    if not isinstance(hub, FleetReader):
        return hub.applied(), []
    try:
        return session.heads(args, box).check(hub, adopt=True), []
    except HoldfastError as trouble:
        return None, [StatusFinding(trouble.code, "fatal", trouble.message, trouble.remedy)]


def _nodes(hub: HubReader, applied: Applied | None, box: Toolbox) -> tuple[dict[str, Testimony], bool]:
    if applied is None:
        return {}, True
    if not isinstance(hub, FleetReader):
        return unheard(applied), True
    answer = hub.nodes()
    return hear(answer, applied, box.clock.now_s()), answer.ready


def doubts(nodes: dict[str, Testimony]) -> list[StatusFinding]:
    """What the hub says of nodes and cannot prove, or seems to hold back."""
    found = []
    for name, one in sorted(nodes.items()):
        address = f"node.{name}"
        if one.withheld_s:
            text = (
                f"the hub says it heard {name} {aged(one.view.age_s or 0.0)} ago, but the newest word it shows was "
                f"signed {aged(one.age_s)} ago: it holds words back, or the clock of {name} is wrong"
            )
            remedy = f"compare with the machine itself: holdfast agent check on {name}"
            found.append(StatusFinding("word_withheld", "warning", text, remedy, address, round(one.age_s, 3)))
        elif one.is_old:
            text = (
                f"the hub calls {name} healthy, but the newest word of {name} it shows was signed {aged(one.age_s)} "
                f"ago: {name} is dead, the hub holds its words back, or a clock is wrong"
            )
            remedy = f"compare with the machine itself: holdfast agent check on {name}"
            found.append(StatusFinding("word_old", "warning", text, remedy, address, round(one.age_s, 3)))
        elif one.view.pulse is not None and not one.verified:
            text = f"what the hub shows as the word of {name} is not proven: {one.doubt}"
            remedy = f"holdfast node show {name}; if its key is new to you, holdfast node revoke {name}"
            found.append(StatusFinding("word_unverified", "warning", text, remedy, address, one.view.age_s or 0.0))
    return found


def unrecorded(nodes: dict[str, Testimony], applied: Applied, now_s: float) -> list[StatusFinding]:
    """Who joined and is in no revision yet, once the invite is over: that proof does not last."""
    found = []
    for name, one in sorted(nodes.items()):
        if not one.key or one.view.enrolment is None or recorded_key(applied, name) == one.key:
            continue
        expires_s = decode_invite(one.view.enrolment.invite.invite).expires_s
        if now_s > expires_s:
            text = f"no revision records the key that {name} joined with; until {rfc3339(expires_s + RECORD_S)} one can"
            address = f"node.{name}"
            age_s = round(now_s - expires_s, 3)
            found.append(StatusFinding("key_not_recorded", "warning", text, "holdfast apply", address, age_s))
    return found


def not_as_applied(nodes: dict[str, Testimony], applied: Applied, now_s: float) -> list[StatusFinding]:
    """Services that have not converged or are not well, by the word of their node alone."""
    found: list[StatusFinding] = []
    for name, one in sorted(nodes.items()):
        if one.report is not None and not one.is_old:
            found += service_findings.of(name, one.report, applied, now_s)
    return found


def merged(hub: Iterable[StatusFinding], own: list[StatusFinding]) -> list[StatusFinding]:
    """Nothing twice: what was found here replaces the same thing from the hub. What nodes say of their services is
    taken from their own words only."""
    here = {(finding.code, finding.address) for finding in own}
    theirs = [
        finding
        for finding in hub
        if finding.code not in service_findings.ROWS and (finding.code, finding.address) not in here
    ]
    return list(dict.fromkeys([*theirs, *own]))


def _document(
    found: HubStatus,
    nodes: dict[str, Testimony],
    applied: Applied | None,
    findings: list[StatusFinding],
    ready: bool,
) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(found)
    document["findings"] = [finding_of(finding) for finding in findings]
    document["nodes"] = [describe(nodes[name], applied) for name in sorted(nodes)] if applied is not None else []
    document["copies"] = msgspec.to_builtins(copies(nodes, applied)) if applied is not None else []
    document["ready"] = ready
    return document


def finding_of(finding: StatusFinding) -> dict[str, Any]:
    """Every key, also where it is empty: scripts rely on them."""
    return {
        "code": finding.code,
        "level": finding.level,
        "message": finding.message,
        "remedy": finding.remedy,
        "address": finding.address,
        "age_s": finding.age_s,
    }


def _since(finding: StatusFinding) -> str:
    return f" ({aged(finding.age_s)})" if finding.age_s >= 1 else ""


def _summary(nodes: dict[str, Testimony], ready: bool) -> str:
    counts: dict[str, int] = {}
    for one in nodes.values():
        counts[one.shown] = counts.get(one.shown, 0) + 1
    verified = sum(1 for one in nodes.values() if one.verified)
    warming = "" if ready else "; the hub started a moment ago and still listens"
    return f"nodes: {', '.join(f'{n} {word}' for word, n in sorted(counts.items()))}; {verified} verified here{warming}"
