"""`holdfast status`: the applied revision, the health of the nodes, and every finding."""

from argparse import Namespace
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from holdfast.cli.flags import Parser
from holdfast.cli.fleet import session
from holdfast.cli.hub import show_finding, show_status
from holdfast.cli.hub.show_status import Shown
from holdfast.cli.nodes import fleet_view
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Corrupt, Failed, HoldfastError, Unreachable
from holdfast.model.applied import Applied
from holdfast.model.hub_status import HubStatus, StatusFinding
from holdfast.ports.hub_link import FleetReader, HubReader
from holdfast.status import gravity
from holdfast.status import nodes as node_findings
from holdfast.trust import reports
from holdfast.wire.faults import HUB

DETAILS = """\
Shows the applied revision, quarantined resources, the health of the nodes, the number of public hostnames, every
service that is not as applied (with the version that serves and the step that failed), every public route and
certificate with a problem, when each service was last backed up and a backup of it last proven by a drill, the
volumes that nothing protects, and every other finding with its code, age and remedy.
Reports of nodes are verified on this machine; an old or forged report is a finding too.

--check is for cron and monitoring: it prints only what is wrong, nothing if nothing is, and its exit code says which.
  0  every applied service is reported as applied; findings that harm nothing do not count, a rollout under way is one
  1  a finding is an error: a silent node, a failed rollout, a service held or unhealthy, a hostname that is not live
  6  the hub did not answer
  7  the ledger or a signature is damaged or forged
A ledger directory has no nodes to check: exit 2.

examples:
  holdfast status
  */5 * * * *  holdfast status --check --fleet /srv/fleet     # a crontab; cron mails what it prints
  holdfast status --hub https://hub.example.com:9555 --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("--check", action="store_true", help="print only errors; the exit code is 0, 1, 6 or 7")


def run(args: Namespace, box: Toolbox) -> int:
    target, hub = fleet_view.reached(args, box)
    if args.check and not isinstance(hub, FleetReader):
        raise fleet_view.no_hub("nodes are checked", target)
    found = hub.status()
    applied, trouble = _applied(hub, args, box)
    shown = _shown(hub, found, applied, box)
    nodes = shown.nodes
    own = [*_of(trouble), *node_findings.doubts(nodes)]
    if applied is not None:
        now_s = box.clock.now_s()
        own += node_findings.unrecorded(nodes, applied, now_s, rfc3339)
        own += node_findings.not_as_applied(nodes, applied, now_s)
        own += node_findings.not_reported(nodes, applied)
        own += node_findings.not_public(nodes, applied, now_s)
    findings = node_findings.merged(found.findings, own)
    code = _checked(findings, trouble) if args.check else 0
    if args.json:
        completed = [replace(one, remedy=show_finding.for_pasting(one.remedy, box.terminal)) for one in findings]
        box.terminal.say_raw(msgspec.json.encode(show_status.document(shown, completed)).decode())
        return code
    for line in show_status.lines(shown, isinstance(hub, FleetReader), box.clock.now_s()) if not args.check else ():
        box.terminal.say(line)
    for finding in findings:
        if not args.check or gravity.is_error(finding):
            by = HUB if isinstance(hub, FleetReader) and finding not in own else ""
            box.terminal.say(show_finding.text(finding, box.terminal, show_status.since(finding), by=by))
    return code


def _checked(findings: Iterable[StatusFinding], trouble: HoldfastError | None) -> int:
    """The exit code of --check: damage before silence before errors."""
    own = {trouble.exit_code} if trouble is not None else set()
    if Corrupt.exit_code in own or any(gravity.is_damaged(one) for one in findings if one not in _of(trouble)):
        return Corrupt.exit_code
    if Unreachable.exit_code in own:
        return Unreachable.exit_code
    return Failed.exit_code if any(map(gravity.is_error, findings)) else 0


def _of(trouble: HoldfastError | None) -> list[StatusFinding]:
    return [] if trouble is None else [StatusFinding(trouble.code, "fatal", trouble.message, trouble.remedy)]


def _applied(hub: HubReader, args: Namespace, box: Toolbox) -> tuple[Applied | None, HoldfastError | None]:
    """Verified if it comes from a hub. If that fails, it is a finding, and no report is used."""
    if not isinstance(hub, FleetReader):
        return hub.applied(), None
    try:
        return session.heads(args, box).check(hub, adopt=True), None
    except HoldfastError as trouble:
        return None, trouble


def _shown(hub: HubReader, found: HubStatus, applied: Applied | None, box: Toolbox) -> Shown:
    if applied is None:
        return Shown(found, None, {}, True)
    if not isinstance(hub, FleetReader):
        return Shown(found, applied, reports.none(applied), True)
    answer = hub.nodes()
    return Shown(found, applied, reports.verify(answer, applied, box.clock.now_s()).nodes, answer.ready)
