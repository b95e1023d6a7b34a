"""`holdfast edge status`: every fact about public hostnames, and which node reported it (A27)."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.hub import show_finding
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.show_report import origin
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model.duration import aged
from holdfast.model.hub_status import StatusFinding
from holdfast.model.nearest import hint
from holdfast.status.edges.views import EdgeView, findings, is_broken, views

DETAILS = """\
Shows for every public hostname, or for those named: its status; the expiry, issuer and chain length of its certificate;
whether the edge reaches the backend and the backend proves its name; when a real TLS handshake first showed the
certificate (one is made every 9 seconds); whether the edge's own DNS answers as the revision says; and where public DNS
points if it points elsewhere. All of it is from the signed report of the edge, verified on this machine, with the age
of the report; for an edge that does not report, the status is unknown.
Exits 1 if a hostname shown is broken or its status is unknown. Public DNS that points elsewhere is only a warning.

examples:
  holdfast edge status
  holdfast edge status shop.example.com --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument("hostnames", metavar="HOSTNAME", nargs="*", help="only these (default: all)")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    now_s = box.clock.now_s()
    shown = [(one, findings(one, now_s)) for one in _only(views(view.applied, view.nodes), args.hostnames)]
    if args.json:
        document = {"edges": [_document(one, found) for one, found in shown]}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
    elif not shown:
        box.terminal.remark("No route is public. Set public = true on a route of a service, then: holdfast apply")
    else:
        for one, found in shown:
            for line in _lines(one, now_s):
                box.terminal.say(line)
            for finding in found:
                box.terminal.say(show_finding.text(finding, box.terminal, lead="  "))
    return 1 if any(is_broken(one, found) for one, found in shown) else 0


def _only(found: list[EdgeView], asked: Sequence[str]) -> list[EdgeView]:
    known = {one.hostname for one in found}
    for name in asked:
        if name not in known:
            raise Invalid(
                f"{name} is not a public hostname of the applied revision",
                remedy=hint(name, known)
                + f"public hostnames are: {', '.join(sorted(known)[:20]) or 'none'}; holdfast edge list",
                code="not_applied",
            )
    return [one for one in found if one.hostname in asked] if asked else found


# ---- for programs


def _document(one: EdgeView, found: list[StatusFinding]) -> dict[str, Any]:
    """Every key, also if empty: scripts rely on them. null: not reported."""
    state = one.state
    return {
        "hostname": one.hostname,
        "service": one.service,
        "component": one.component,
        "edge": one.edge,
        "node": one.node,
        "status": one.status,
        "step": state.step if state is not None else "",
        "message": state.message if state is not None else "",
        "backend": one.route.backend,
        "backend_address": f"{state.address}:{state.port}" if state is not None and state.address else None,
        "certificate": _certificate(one),
        "backend_reachable": one.is_reachable,
        "handshake_seen": _handshake(one),
        "dns_agrees": one.dns_agrees,
        "public_dns": state.public_dns if state is not None else "",
        "findings": [msgspec.to_builtins(finding) for finding in found],
        "verified": one.edge_report is not None and one.edge_report.verified,
        "age_s": one.age_s,
    }


def _certificate(one: EdgeView) -> dict[str, Any] | None:
    certificate = one.certificate
    if certificate is None:
        return None
    return {
        "expires": rfc3339(certificate.expires_s) if certificate.expires_s else None,
        "not_before": rfc3339(certificate.not_before_s) if certificate.not_before_s else None,
        "serial": certificate.serial,
        "authority": certificate.authority,
        "chain": certificate.chain,
        "names": list(certificate.names),
    }


def _handshake(one: EdgeView) -> str | None:
    seen = one.certificate is not None and one.certificate.handshake_s
    return rfc3339(one.certificate.handshake_s) if one.certificate is not None and seen else None


# ---- for people


def _lines(one: EdgeView, now_s: float) -> list[str]:
    lines = [f"{one.hostname}: {one.status}, {one.service}/{one.component} on {one.node} by {one.edge or 'no edge'}"]
    if one.edge_report is not None:
        lines.append(f"  report       {_whose(one)}")
    state = one.state
    if state is None:
        return lines
    if state.phase != "live" and (state.step or state.message):
        step = f"step {state.step!r}" if state.step else ""
        lines.append(f"  {state.phase:<11}  {': '.join(part for part in (step, state.message) if part)}")
    if one.status == "moving" and state.former:
        lines.append(f"  visitors     are served at {state.former}, where it was, until it works on {one.node}")
    if one.behind and one.status == one.behind:
        lines.append(f"  service      {_behind(one)}")
    address = f" at {state.address}:{state.port}" if state.address else ""
    lines.append(f"  backend      {state.backend} on {state.node}{address}: {_reached(one)}")
    lines.append(f"  certificate  {_certified(one, now_s)}")
    lines.append(f"  handshake    {_seen(one, now_s)}")
    lines.append(f"  internal DNS {_named(one)}")
    if state.public_dns:
        lines.append(f"  public DNS   points elsewhere: {state.public_dns}")
    return lines


def _whose(one: EdgeView) -> str:
    """The last report of a silent edge says nothing about now."""
    assert one.edge_report is not None
    if one.edge_report.status == "unhealthy":
        return f"no contact with {one.edge} for {aged(one.edge_report.age_s)}: the status is unknown"
    return origin(one.edge_report)


def _behind(one: EdgeView) -> str:
    """As its node reports; the edge may have asked before that."""
    if one.behind == "held":
        return f"stopped on {one.node} by an order: holdfast start {one.service}"
    return f"no container of it works on {one.node}: holdfast ps {one.service}"


def _reached(one: EdgeView) -> str:
    trouble = (one.state.backend_trouble or one.state.message) if one.state is not None else ""
    standby = f"; standby for {one.node}: {trouble}" if one.stands_in and trouble else ""
    return {
        True: f"reached, and its certificate proves its name{standby}",
        False: trouble if one.status == "down" else f"not reached: {trouble}",
        None: "not tried yet",
    }[one.is_reachable]


def _named(one: EdgeView) -> str:
    trouble = (one.state.dns_trouble or one.state.message) if one.state is not None else ""
    return {True: "agrees with the revision", False: trouble, None: "not asked yet"}[one.dns_agrees]


def _certified(one: EdgeView, now_s: float) -> str:
    certificate = one.certificate
    if one.state is not None and one.state.mode == "l4":
        return "from the backend: the edge passes the TLS connection through"
    if certificate is None or not certificate.expires_s:
        return f"none: {certificate.trouble}" if certificate is not None and certificate.trouble else "none yet"
    days = (certificate.expires_s - now_s) / 86_400
    left = f"in {days:.0f} days" if days >= 0 else f"{-days:.0f} days ago"
    issuer = {"acme": "issued by the public authority", "own": "issued by the edge"}.get(
        certificate.authority, "issuer unknown"
    )
    trouble = f"; {certificate.trouble}" if certificate.trouble else ""
    return f"expires {rfc3339(certificate.expires_s)} ({left}), {issuer}, chain of {certificate.chain}{trouble}"


def _seen(one: EdgeView, now_s: float) -> str:
    if one.certificate is None or not one.certificate.handshake_s:
        return "not seen yet"
    return f"first seen {aged(max(0.0, now_s - one.certificate.handshake_s))} ago, made every 9 s"
