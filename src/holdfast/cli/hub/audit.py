"""`holdfast audit`: show who did what with which result, and verify that the log is unchanged."""

import os
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.cli import tables
from holdfast.cli.flags import Parser, positive, repeated
from holdfast.cli.fleet import hub_identity
from holdfast.cli.nodes import fleet_view
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.sizes import counted
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.errors import Corrupt, HoldfastError, Invalid, Unreachable
from holdfast.model import audit, canonical
from holdfast.model.audit import NO_ENTRIES, AuditEntry, AuditHead
from holdfast.ports.hub_link import FleetKeeper

DETAILS = """\
Shows the hub's own log, or with --node the hub's copy of that node's log. Every line contains the hash of the line
before. --verify reads the whole log, checks the hash chain, and compares it with what this machine saw before and, for
a node, with the head that the node signed. Exit 7: a line was removed, changed or inserted. Exit 6: the hub does not
show all lines yet, or no signed report of the node proves them.

examples:
  holdfast audit
  holdfast audit --node w1 -n 20
  holdfast audit --verify --json
"""

PAGE = 1_000
LATE_S, PAUSE_S = 5.0, 0.5
MEMORY_BYTES_MAX = 4096


def declare(parser: Parser) -> None:
    parser.add_argument("--node", metavar="NODE", default="", help="the log of this node instead of the hub's")
    parser.add_argument("--verify", action="store_true", help="check the whole chain")
    parser.add_argument("-n", "--limit", metavar="N", type=positive, default=50, help="newest N lines (default 50)")


def run(args: Namespace, box: Toolbox) -> int:
    view = fleet_view.look(args, box)
    keeper = fleet_view.keeper(view, "the audit log is served")
    if args.node:
        fleet_view.node(view, args.node, args)
    return _verify_patiently(args, view, keeper, box) if args.verify else _show(args, keeper, box)


def _show(args: Namespace, keeper: FleetKeeper, box: Toolbox) -> int:
    newest = keeper.audit_entries(args.node)
    lines = [line for page in _pages(keeper, args.node, max(0, newest - args.limit)) for line in page]
    entries = [_read(line) for line in lines[-args.limit :]]
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"entries": [_document(entry) for entry in entries]}).decode())
        return 0
    if not entries:
        box.terminal.remark("The audit log is empty.")
    for line in tables.lines([_cells(entry) for entry in entries], box.terminal, tail=True):
        box.terminal.say(line)
    return 0


def _verify_patiently(args: Namespace, view: FleetView, keeper: FleetKeeper, box: Toolbox) -> int:
    """Retry for 5 s: a node's audit lines arrive up to one check-in after the signed report that counts them."""
    until_s = box.clock.monotonic_s() + LATE_S
    while True:
        try:
            return _verify(args, view, keeper, box)
        except Unreachable as trouble:
            if trouble.code != "audit_withheld" or box.clock.monotonic_s() >= until_s:
                raise
        box.clock.sleep(PAUSE_S)


def _verify(args: Namespace, view: FleetView, keeper: FleetKeeper, box: Toolbox) -> int:
    path = _memory_path(args, view, box)
    known = _remembered(path, box)
    head, count, seen = NO_ENTRIES, 0, known is None
    signed = _signed_head(args, view)
    compared = False  # with the head that the node signed
    for page in _pages(keeper, args.node, 0):
        if not count and args.node:  # a hub keeps the newest lines of a node's log, the node all of them
            first = _read(page[0])
            head = NO_ENTRIES if first.number == 1 else AuditHead(first.number - 1, first.previous)
            seen = seen or (known is not None and (known.number < head.number or known == head))
            compared = _compare(args.node, head, signed)
        for line in page:
            head = audit.follow(head, line)
            seen = seen or head == known
            compared = _compare(args.node, head, signed) or compared
        count += len(page)
    if not seen and known is not None:
        raise Corrupt(
            f"entry {known.number} of the audit log differs from the one this machine saw before (the log has "
            f"{head.number} entries)",
            remedy=f"keep the logs as evidence; only if the hub was reinstalled on purpose: remove {path}",
            code="audit_broken",
        )
    if args.node and not compared and (count or signed is not None):
        raise _unsigned(args, head, count, signed)
    box.disk.make_directory(os.path.dirname(path))
    box.disk.replace(path, msgspec.json.encode(head))
    against = "" if signed is None else f", and {args.node} signed entry {signed.number}"
    if signed is not None and signed.number < head.number:
        against += f" (not yet the {head.number - signed.number} after it)"
    if args.json:
        told: dict[str, Any] = {"verified": True, "entries": head.number, "lines": count, "head": head.digest}
        if args.node:
            told["signed"] = signed.number if signed is not None else 0
        box.terminal.say_raw(msgspec.json.encode(told).decode())
    else:
        box.terminal.say(
            f"Sound: {count} line{'s' * (count != 1)} up to entry {head.number}, head {head.digest[:12]}…{against}"
        )
    return 0


def _signed_head(args: Namespace, view: FleetView) -> AuditHead | None:
    report = view.nodes[args.node].report if args.node else None
    return AuditHead(report.audit_entries, report.audit_head) if report is not None and report.audit_entries else None


def _compare(node: str, head: AuditHead, signed: AuditHead | None) -> bool:
    """Whether this is the entry that the node signed. If it is, it must be identical."""
    if signed is None or head.number != signed.number:
        return False
    if head != signed:
        raise _differs(node, signed.number)
    return True


def _unsigned(args: Namespace, head: AuditHead, count: int, signed: AuditHead | None) -> HoldfastError:
    """The error for lines that do not contain the head that the node signed: the node may not have written them."""
    on_node = f"on {args.node}: holdfast agent check"
    if signed is None:
        return Unreachable(
            f"no signed report of {args.node} names its audit head, so what the hub has of it is unproven: "
            f"{counted(count, 'line')}",
            remedy=f"`holdfast node show {args.node}{repeated(args)}`; {on_node}",
            code="audit_unproven",
        )
    if head.number < signed.number:
        return Unreachable(
            f"{args.node} signed {signed.number} entries, but the hub shows {head.number}: these are unproven, and "
            "the rest is withheld or still being sent",
            remedy=f"run this again in a minute; if it stays so, keep the hub's answer as evidence; {on_node}",
            code="audit_withheld",
        )
    return Corrupt(
        f"the hub's lines do not reach back to entry {signed.number}, the last one that {args.node} signed",
        remedy=f"keep the hub's answer as evidence; {on_node}",
        code="audit_broken",
    )


def _pages(keeper: FleetKeeper, node: str, after: int) -> Iterator[list[bytes]]:
    while True:
        page = list(keeper.audit_lines(node, after, PAGE))
        if not page:
            return
        yield page
        last = _read(page[-1]).number
        if last <= after:
            raise Corrupt("the hub sent the same audit page twice", remedy="holdfast hub check", code="audit_broken")
        after = last


def _read(line: bytes) -> AuditEntry:
    try:
        return msgspec.json.decode(line, type=AuditEntry)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Corrupt(
            "a line of the audit log cannot be read",
            remedy="keep the file as evidence; run `holdfast audit --verify`",
            code="audit_broken",
        ) from trouble


def _memory_path(args: Namespace, view: FleetView, box: Toolbox) -> str:
    name = f"{view.applied.fleet_id}-{args.node or 'hub'}.json"
    return os.path.join(hub_identity.state_dir(box.environ), "audit", name)


def _remembered(path: str, box: Toolbox) -> AuditHead | None:
    content = box.disk.read(path, MEMORY_BYTES_MAX)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=AuditHead)
    except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
        raise Invalid(f"{path} cannot be read", remedy=f"remove {path} and verify again") from trouble


def _differs(node: str, number: int) -> Corrupt:
    return Corrupt(
        f"the hub's copy of entry {number} is not the one that {node} signed",
        remedy=f"keep both as evidence; on {node}: holdfast agent check",
        code="audit_broken",
    )


def _document(entry: AuditEntry) -> dict[str, Any]:
    event: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(entry.event))
    full = {"result": "done", "target": "", "detail": "", "source": "", "count": 1} | event
    return {
        "number": entry.number,
        "at": rfc3339(entry.at_ms / 1000),
        **full,
        "digest": canonical.digest(audit.encode(entry)),
    }


def _cells(entry: AuditEntry) -> tuple[str, ...]:
    event = entry.event
    times = f" ×{event.count}" if event.count > 1 else ""
    parts = [event.principal, event.action, event.target, event.result + times]
    tail = f"  ({event.detail})" if event.detail else ""
    return f"{entry.number:>6}", rfc3339(entry.at_ms / 1000), " ".join(part for part in parts if part) + tail
