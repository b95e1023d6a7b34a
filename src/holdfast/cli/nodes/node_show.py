"""`holdfast node show`: everything that one node reported, with the age of its signed report."""

from argparse import Namespace
from collections.abc import Container
from typing import Any

import msgspec

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.hub import show_finding
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.node_list import describe, is_drained
from holdfast.cli.nodes.show_report import origin
from holdfast.cli.sizes import counted
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from holdfast.errors import Unreachable
from holdfast.model import ssh_key
from holdfast.model.applied import Applied
from holdfast.model.duration import aged
from holdfast.model.report import Report, clamped
from holdfast.model.verified_report import VerifiedReport
from holdfast.status.edges import findings as edge_findings

DETAILS = """\
Shows the node's key, address and accepted revision, its proxy and DNS server, the changes it parked because they need a
higher signature, and its findings.

examples:
  holdfast node show w1
  holdfast node show w1 --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the node")
    parser.add_argument(
        "--pulse", action="store_true", help="print only its newest signed pulse, for `order sign --pulse` elsewhere"
    )


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    one = fleet_view.node(view, args.name, args)
    if args.pulse:
        box.terminal.say(_pulse(one, args))
        return 0
    if args.json:
        document = describe(one, view.applied) | _details(one, box.terminal)
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    for line in _lines(one, view.applied, box.clock.now_s(), box.terminal):
        box.terminal.say(line)
    return 0


def _pulse(one: VerifiedReport, args: Namespace) -> str:
    if one.pulse is None:
        raise Unreachable(
            f"no pulse of {args.name} is proven: {one.doubt}",
            remedy=f"holdfast node show {args.name}{repeated(args)}",
            code="not_heard",
        )
    return msgspec.json.encode(one.view.pulse).decode()


def _details(one: VerifiedReport, terminal: Terminal) -> dict[str, Any]:
    """`parked` and `findings` in full; `node list` has only their number."""
    report = one.report
    return {
        "parked": show_finding.documents(report.parked, terminal) if report else [],
        "findings": show_finding.documents(report.findings, terminal) if report else [],
        "containers": msgspec.to_builtins(report.containers) if report else [],
        "operations": list(report.operations) if report else [],
        "runtime": report.runtime if report else "",
        "proxy": report.proxy if report else "",
        "edge": msgspec.to_builtins(report.edge) if report else [],
        "certificates": msgspec.to_builtins(report.certificates) if report else [],
        "names": msgspec.to_builtins(report.names) if report and report.names is not None else None,
        "life": one.pulse.life if one.pulse is not None else "",
        "audit": {"entries": report.audit_entries, "head": report.audit_head} if report else None,
        "doubt": one.doubt,
    }


def _lines(one: VerifiedReport, applied: Applied, now_s: float, terminal: Terminal) -> list[str]:
    view, pulse, report = one.view, one.pulse, one.report
    key = one.key or view.key
    lines = [
        f"{view.name}: {one.shown}, {'+'.join(view.roles)}{', drained' * is_drained(applied, view.name)}",
        f"  report    {origin(one)}",
        f"  address   {view.address or '-'}",
        f"  key       {ssh_key.fingerprint(ssh_key.parse(key)) if key else '-'}",
    ]
    if pulse is not None:
        facts = clamped(pulse.facts)
        lines.append(f"  accepted  revision {pulse.accepted.number} ({pulse.accepted.digest[:12]}…)")
        lines.append(f"  orders    counter {pulse.counter}")
        lines.append(
            f"  claims    {facts.cpu_millicores / 1000:g} processors, {_mib(facts.memory_free_bytes)} of "
            f"{_mib(facts.memory_bytes)} memory and {_mib(facts.disk_free_bytes)} of {_mib(facts.disk_bytes)} disk free"
        )
    if report is not None:
        lines.append(f"  agent     {report.version} {report.arch}, {report.state}, {report.health}, {report.mode}")
        lines += _traffic(report, edge_findings.wanted_of(view.name, applied))
        lines += [f"  running   {operation}" for operation in report.operations]
        for parked in report.parked:
            lines.append(f"  parked    {parked.address}, {aged(max(0.0, now_s - parked.since_s))}: {parked.reason}")
            lines.append(f"            remedy: {show_finding.for_pasting(parked.remedy, terminal)}")
        for found in report.findings:
            lines.append(f"  finding   {found.code}: {found.message}")
            lines.append(f"            remedy: {show_finding.for_pasting(found.remedy, terminal)}")
    return lines


def _traffic(report: Report, wanted: Container[tuple[str, str]]) -> list[str]:
    """`wanted`: the hostnames that the applied revision gives to this node."""
    lines = [f"  proxy     {report.proxy}"] if report.proxy else []
    for state in report.edge:
        doubt = "" if (state.hostname, state.service) in wanted else " (not applied here)"
        lines.append(f"  public    {state.hostname}: {state.phase}{doubt}")
    if report.names is not None:
        server = report.names.server or "no DNS server answers"
        trouble = f"; {report.names.trouble}" if report.names.trouble else ""
        lines.append(f"  names     {server}, {counted(report.names.records, 'record')}{trouble}")
    return lines


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 1024**3:.1f} GiB" if size_bytes >= 1024**3 else f"{size_bytes / 1024**2:.0f} MiB"
