"""A plan for people and for programs. Reads the plan; decides nothing.

Every text of a plan may come from a file or a hub, so `_line` removes control characters from each.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, get_args

import msgspec
from msgspec import Struct

from holdfast.cli.terminal import Terminal
from holdfast.cli.text import Block, block, harmless
from holdfast.model.plan import Change, FieldChange, Plan
from holdfast.model.revision import Candidate, decode_header, digest_of

SIGN = {"create": "+", "update": "~", "move": ">", "retire": "-"}
STYLE = {"create": "green", "update": "yellow", "move": "blue", "retire": "red"}
VALUE_CHARS = 72


# ---- for people -----------------------------------------------------------------------------------------------------


def text(
    plan: Plan, terminal: Terminal, verbose: bool = False, allowed: int | None = None, only: str | None = None
) -> Block:
    """`only`: the one address that was planned; the directory may differ in others."""
    lines: list[str] = []
    if not plan.changes:
        lines.append(f"No changes: {only or 'the fleet directory'} matches the applied revision {plan.base.number}.")
    else:
        on_top = f"on top of revision {plan.base.number}" if plan.base.number else "as the first revision"
        lines += [f"Holdfast will make these changes {on_top}:", ""]
        details = _Details(plan.candidate)
        width = max(len(_line(change.address)) for change in plan.changes)
        for change in plan.changes:
            lines += _change_lines(change, terminal, width, details, verbose)
        lines += ["", summary(plan), *_demands(plan, terminal, allowed)]
    lines += [terminal.paint("yellow", "Warning: ") + _line(warning) for warning in plan.warnings]
    return block(lines)


def _change_lines(change: Change, terminal: Terminal, width: int, details: "_Details", verbose: bool) -> list[str]:
    mark = terminal.paint(STYLE[_verb(change)], SIGN[_verb(change)])
    why = terminal.paint("dim", f"  ({_line(change.why)})") if change.why else ""
    lines = [f"  {mark} {_line(change.address):<{width}}  {_verb(change)}{_where(change)}{why}"]
    if change.kind == "create":
        lines += [f"      {line}" for line in details.created(change.address, verbose)]
    lines += [f"      {_field(change.address, field, terminal)}" for field in change.fields]
    lines += [f"      {terminal.paint('yellow', 'note:')} {_line(note)}" for note in change.notes]
    if change.removes and change.blast.volumes_kept:
        lines.append(f"      data kept: {_names(change.blast.volumes_kept)}")
    lines += [
        f"      {terminal.paint('red', 'needs grade ' + demand.grade)}: {_line(demand.reason)}"
        for demand in change.demands
        if demand.grade != "apply" and (verbose or change.kind != "create")
    ]
    return lines


def _verb(change: Change) -> str:
    """The kind `destroy` means that a storage target is detached. An apply deletes nothing: no text says "destroy"."""
    if change.kind != "destroy":
        return change.kind
    return "retire" if change.removes else "update"


def _where(change: Change) -> str:
    node = _line(change.node)
    if change.moved_from:
        return f" {_line(change.moved_from)} → {node}"
    if not node:
        return ""
    return f" from {node}" if change.removes else f" on {node}"


def _field(address: str, field: FieldChange, terminal: Terminal) -> str:
    """A value that is not written down any more is the default, if the field has one."""
    path = _line(field.path)
    default = _default(address, field.path) if None in (field.before, field.after) else None
    was, becomes = (default if value is None else value for value in (field.before, field.after))
    if was is None:
        return f"{path}: {terminal.paint('green', _value(becomes))}"
    if becomes is None:
        return f"{path}: {terminal.paint('red', _value(was))} removed"
    before, after = _difference(was, becomes)
    return f"{path}: {terminal.paint('red', before)} → {terminal.paint('green', after)}"


def _default(address: str, path: str) -> Any:
    """The default of a field of a declared resource: `components[web].replicas` has 1; None if it has none."""
    from holdfast.planning.kinds.every import BY_NAME

    kind = BY_NAME.get(address.partition(".")[0])
    where: Any = kind.schema if kind is not None else None
    found: Any = None
    for name in re.sub(r"\[[^]]*\]", "", path).split("."):
        known = {field.name: field for field in msgspec.structs.fields(where)} if _is_struct(where) else {}
        if name not in known:
            return None
        found = known[name].default
        where = next((part for part in _parts(known[name].type) if _is_struct(part)), None)
    return found if isinstance(found, bool | int | str) and found != "" else None


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _difference(before: Any, after: Any) -> tuple[str, str]:
    """Cut two long values that begin alike, so that their first difference is visible."""
    old, new = (_line(msgspec.json.encode(value).decode()) for value in (before, after))
    if max(len(old), len(new)) <= VALUE_CHARS:
        return old, new
    alike = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, alike - VALUE_CHARS // 3)
    return _window(old, start), _window(new, start)


def _window(text: str, start: int) -> str:
    shown = text[start : start + VALUE_CHARS]
    return ("…" if start else "") + shown + ("…" if start + VALUE_CHARS < len(text) else "")


def _value(value: Any) -> str:
    if isinstance(value, str) and (digest := re.fullmatch("sha256:([0-9a-f]{12})[0-9a-f]{52}", value)):
        return f"sha256:{digest[1]}…"
    shown = _line(msgspec.json.encode(value).decode())
    return shown if len(shown) <= VALUE_CHARS else shown[: VALUE_CHARS - 1] + "…"


def _line(text: str) -> str:
    """Measured and cut as it is printed: without control characters and line breaks."""
    return harmless(text)


def _names(names: Sequence[str]) -> str:
    return ", ".join(_line(name) for name in names)


# Only the fields that are shown: decoding all of them costs ten times more, and planning has checked them.


class _Entry(Struct):
    digest: str
    images: dict[str, str] = {}


class _Table(Struct):
    entries: dict[str, _Entry]


class _Component(Struct):
    name: str
    image: str


class _Service(Struct):
    components: tuple[_Component, ...]


class _Details:
    """Contents of created resources, decoded only when a line needs them."""

    def __init__(self, candidate: Candidate | None) -> None:
        self._candidate = candidate
        self._blobs = candidate.blobs if candidate else {}

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        return msgspec.json.decode(self._candidate.table, type=_Table).entries if self._candidate else {}

    def created(self, address: str, verbose: bool) -> list[str]:
        entry = self._entries[address]
        content = self._blobs.get(entry.digest)
        if not address.startswith("service."):
            return []
        if content is None:  # the ledger has it: another service has the same one, or an earlier revision
            return [f"image {_line(image)}" for image in sorted(entry.images)]
        if verbose:
            return [f"{_line(key)}: {_value(value)}" for key, value in msgspec.json.decode(content).items()]
        service = msgspec.json.decode(content, type=_Service)
        return [f"{_line(component.name)}: {_line(_short(component.image))}" for component in service.components]


def _short(image: str) -> str:
    name, at, digest = image.partition("@sha256:")
    return f"{name}@sha256:{digest[:12]}…" if at else image


def summary(plan: Plan) -> str:
    counts: dict[str, int] = {}
    for change in plan.changes:
        counts[_verb(change)] = counts.get(_verb(change), 0) + 1
    said = ", ".join(f"{count} to {kind}" for kind, count in counts.items())
    nodes = plan.nodes_touched
    shown = _names(nodes[:6]) + (" …" if len(nodes) > 6 else "")
    touches = f" Touches {len(nodes)} node{'s' * (len(nodes) != 1)}: {shown}." if nodes else " Touches no node."
    hostnames = sorted({name for change in plan.changes for name in change.blast.hostnames})
    public = f" Hostnames: {_names(hostnames[:6])}{' …' if len(hostnames) > 6 else ''}." if hostnames else ""
    return f"Plan: {said}.{touches}{public}"


def _demands(plan: Plan, terminal: Terminal, allowed: int | None) -> list[str]:
    """`allowed`: the number of removals that a flag or the verb already allows."""
    lines = []
    if plan.removals:
        count = len(plan.removals)
        needs = f" To apply it: --allow-removals {count}." if allowed != count else ""
        lines.append(terminal.paint("red", f"{count} removal{'s' * (count != 1)}.") + needs)
    lines.append(f"Signature needed: grade {plan.grade}.")
    return lines


# ---- for programs ---------------------------------------------------------------------------------------------------


def document(plan: Plan, allow_removals: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "base": {"number": plan.base.number, "digest": plan.base.digest},
        "revision": None,
        "changes": [change_document(change) for change in plan.changes],
        "grade": plan.grade,
        "removals": [change.address for change in plan.removals],
        "allow_removals": allow_removals,
        "nodes_touched": list(plan.nodes_touched),
        "warnings": list(plan.warnings),
    }
    if plan.candidate is not None:
        header = decode_header(plan.candidate.header)
        digest = digest_of(plan.candidate.header)
        found["revision"] = {"number": header.number, "digest": digest, "fleet": header.fleet}
    return found


def change_document(change: Change) -> dict[str, Any]:
    return {
        "address": change.address,
        "kind": change.kind,
        "node": change.node or None,
        "why": change.why,
        "grade": change.grade,
        "demands": [{"grade": demand.grade, "reason": demand.reason} for demand in change.demands],
        "fields": [{"path": f.path, "before": f.before, "after": f.after} for f in change.fields],
        "moved_from": change.moved_from or None,
        "removes": change.removes,
        "blast": {
            "nodes": list(change.blast.nodes),
            "hostnames": list(change.blast.hostnames),
            "containers": change.blast.containers,
            "volumes_kept": list(change.blast.volumes_kept),
        },
        "notes": list(change.notes),
    }
