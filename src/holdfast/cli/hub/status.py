"""`holdfast status`: the applied revision, the health of the nodes, and every finding."""

from argparse import Namespace

import msgspec
from msgspec.structs import replace

from holdfast.cli.flags import Parser
from holdfast.cli.fleet import session
from holdfast.cli.hub import show_finding, show_status
from holdfast.cli.hub.show_status import Shown
from holdfast.cli.nodes import fleet_view
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import HoldfastError
from holdfast.model.applied import Applied
from holdfast.model.hub_status import StatusFinding
from holdfast.model.verified_report import VerifiedReport
from holdfast.ports.hub_link import FleetReader, HubReader
from holdfast.status import nodes as node_findings
from holdfast.trust import reports
from holdfast.wire.faults import HUB

DETAILS = """\
Shows the applied revision, quarantined resources, the health of the nodes, the number of public hostnames, every
service that is not as applied (with the version that serves and the step that failed), every public route and
certificate with a problem, the volumes that nothing protects, and every other finding with its code, age and remedy.
Reports of nodes are verified on this machine; an old or forged report is a finding too.

examples:
  holdfast status
  holdfast status --hub https://hub.example.com:9555 --json
"""


def declare(parser: Parser) -> None:
    """No arguments of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    _, hub = fleet_view.reached(args, box)
    found = hub.status()
    applied, trouble = _applied(hub, args, box)
    nodes, ready = _nodes(hub, applied, box)
    own = [*trouble, *node_findings.doubts(nodes)]
    if applied is not None:
        now_s = box.clock.now_s()
        own += node_findings.unrecorded(nodes, applied, now_s, rfc3339)
        own += node_findings.not_as_applied(nodes, applied, now_s)
        own += node_findings.not_public(nodes, applied, now_s)
    findings = node_findings.merged(found.findings, own)
    shown = Shown(found, applied, nodes, ready)
    if args.json:
        completed = [replace(one, remedy=show_finding.for_pasting(one.remedy, box.terminal)) for one in findings]
        box.terminal.say_raw(msgspec.json.encode(show_status.document(shown, completed)).decode())
        return 0
    for line in show_status.lines(shown, isinstance(hub, FleetReader)):
        box.terminal.say(line)
    for finding in findings:
        by = HUB if isinstance(hub, FleetReader) and finding not in own else ""
        box.terminal.say(show_finding.text(finding, box.terminal, show_status.since(finding), by=by))
    return 0


def _applied(hub: HubReader, args: Namespace, box: Toolbox) -> tuple[Applied | None, list[StatusFinding]]:
    """Verified if it comes from a hub. If that fails, it is a finding, and no report is used."""
    if not isinstance(hub, FleetReader):
        return hub.applied(), []
    try:
        return session.heads(args, box).check(hub, adopt=True), []
    except HoldfastError as trouble:
        return None, [StatusFinding(trouble.code, "fatal", trouble.message, trouble.remedy)]


def _nodes(hub: HubReader, applied: Applied | None, box: Toolbox) -> tuple[dict[str, VerifiedReport], bool]:
    if applied is None:
        return {}, True
    if not isinstance(hub, FleetReader):
        return reports.none(applied), True
    answer = hub.nodes()
    return reports.verify(answer, applied, box.clock.now_s()).nodes, answer.ready
