"""Checkpoints in the signed reports of the nodes: found, chosen by id, put into words."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.sizes import size
from holdfast.cli.timestamps import rfc3339
from holdfast.errors import Conflict, Invalid
from holdfast.model.checkpoint import FETCHED
from holdfast.model.report import CheckpointState, ReportedCheckpoints, UnlistedCheckpoints


class Found(Struct, frozen=True):
    node: str
    state: CheckpointState
    age_s: float  # of the report


def found(view: FleetView, service: str = "", node: str = "") -> list[Found]:
    """Only from signed reports that are not old; by service, oldest first."""
    rows = []
    for name, section in _reported(view, node):
        for state in section.checkpoints:
            if service in ("", state.service):
                rows.append(Found(name, state, view.nodes[name].age_s))
    return sorted(rows, key=lambda row: (row.state.service, row.state.made_s, row.state.id))


def unlisted(view: FleetView, service: str = "", node: str = "") -> list[tuple[str, UnlistedCheckpoints]]:
    """With their nodes: older ones for which a report has no room."""
    reported = _reported(view, node)
    return [(name, one) for name, of in reported for one in of.unlisted_checkpoints if service in ("", one.service)]


def amount(view: FleetView, service: str, node: str) -> tuple[int, int]:
    """How many there are, and their bytes."""
    sizes, more = [row.state.size_bytes for row in found(view, service, node)], unlisted(view, service, node)
    return len(sizes) + sum(one.count for _, one in more), sum(sizes) + sum(one.size_bytes for _, one in more)


def _reported(view: FleetView, node: str) -> Iterator[tuple[str, ReportedCheckpoints]]:
    for name, one in view.nodes.items():
        section = one.section(ReportedCheckpoints) if not one.is_old and node in ("", name) else None
        if section is not None:
            yield name, section


def named(view: FleetView, service: str, id: str, node: str = "") -> Found:
    """By its id or the beginning of it."""
    rows = [row for row in found(view, service, node) if row.state.id.startswith(id)]
    exact = [row for row in rows if row.state.id == id]
    if len(exact or rows) == 1:
        return (exact or rows)[0]
    where, lists = f" on {node}" if node else "", f"`holdfast checkpoint list {service}` lists them"
    if not rows:
        raise Invalid(f"no node reports a checkpoint {id!r} of {service}{where}", remedy=lists, code="not_found")
    many = ", ".join(f"{row.state.id} on {row.node}" for row in rows[:5])
    raise Conflict(
        f"{len(rows)} checkpoints of {service}{where} begin with {id!r}: {many}",
        remedy=f"give the whole id and the node (-n): {lists}",
        code="ambiguous",
    )


def words(state: CheckpointState) -> str:
    """What it is a copy of."""
    of = f"data of revision {state.revision}" if state.revision else "data of an unknown revision"
    of += f" ({_images(state.images)})" if state.images else ""
    if state.id.startswith(FETCHED):
        return f"{of}, brought back from a backup"
    if not state.before:
        return f"{of}, replaced by a restore" if state.revision or state.deployment else of
    before = f"revision {state.before_revision}" if state.before_revision else "the next deployment"
    before += f" ({_images(state.before_images)})" if state.before_images else ""
    mixed = "; parts of that version had written already" if state.mixed else ""
    out = f"; without {', '.join(state.left_out[:3])}" if state.left_out else ""
    return f"{of}, made before {before} got it{mixed}{out}"


def line(row: Found) -> str:
    return (
        f"{row.state.id} on {row.node}: {size(row.state.size_bytes)}, {rfc3339(row.state.made_s)}, {words(row.state)}"
    )


def document(row: Found) -> dict[str, Any]:
    state = row.state
    return {
        "service": state.service,
        "node": row.node,
        "id": state.id,
        "size_bytes": state.size_bytes,
        "made": rfc3339(state.made_s),
        "revision": state.revision or None,
        "images": list(state.images),
        "before": {"revision": state.before_revision or None, "images": list(state.before_images)}
        if state.before
        else None,
        "mixed": state.mixed,
        "left_out": list(state.left_out),
        "age_s": round(row.age_s, 3),
    }


def _images(images: tuple[str, ...]) -> str:
    return ", ".join(map(_short, images))


def _short(image: str) -> str:
    """Without its registry; a digest only where there is no tag."""
    name, _, digest = image.partition("@")
    last = name.rpartition("/")[2]
    return last if ":" in last or not digest else f"{last}@{digest.removeprefix('sha256:')[:12]}"
