"""Secrets of a service that another node must open: opened with the operator's identity, sealed to that node too."""

import os
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET, Struct

from holdfast.cli.secrets import purposes, secret_opening
from holdfast.cli.tools import Toolbox
from holdfast.declared.secrets import path_of
from holdfast.errors import Conflict, NotPermitted
from holdfast.model import canonical, sealed
from holdfast.model import purpose as purposes_of
from holdfast.model.applied import Applied, recorded_key
from holdfast.model.ids import kind_of
from holdfast.model.purpose import Purpose, mismatch, wrapped
from holdfast.model.revision import Entry
from holdfast.planning import moving, replacing
from holdfast.planning.secrets import nodes_of


class Resealed(Struct, frozen=True):
    names: Mapping[str, str] = {}  # secret → the digest it has now
    contents: Mapping[str, bytes] = {}  # that digest → sealed again


def for_node(service: str, node: str, applied: Applied, args: Namespace, box: Toolbox) -> Resealed:
    """For the node that this service moves to."""
    entry = applied.table.entries[f"service.{service}"]
    readers = {node, *entry.failover}
    names = moving.closed(service, node, applied)
    return _resealed(node, names, lambda digest: readers | _readers(digest, applied, entry), applied, args, box)


def for_machine(node: str, machine: Applied, args: Namespace, box: Toolbox) -> Resealed:
    """For another machine in the place of a node: `machine` is the applied revision with its key."""
    names = {name: digest for digest, name in replacing.closed(node, machine).items()}
    return _resealed(node, names, lambda digest: _readers(digest, machine), machine, args, box)


def _readers(digest: str, applied: Applied, without: Entry | None = None) -> set[str]:
    users = [entry for entry in applied.table.entries.values() if digest in entry.secrets.values()]
    return {one for entry in users if entry != without for one in nodes_of(entry)}


def _resealed(
    node: str,
    names: Mapping[str, str],
    readers: Callable[[str], set[str]],
    applied: Applied,
    args: Namespace,
    box: Toolbox,
) -> Resealed:
    """Everything that cannot be opened is named at once, before anything moves."""
    contents, shut = {}, []
    for name, digest in names.items():
        try:
            contents[digest] = _sealed(name, digest, readers(digest), applied, args, box)
        except NotPermitted:
            shut.append(name)
    if shut:
        raise NotPermitted(
            f"{node} cannot open these secrets, and your identity cannot either: {', '.join(shut)}",
            remedy="use another one with --identity FILE, ask a colleague who can open them, or set new values: "
            + "; ".join(f"holdfast secret rotate {name}" for name in shut),
            code="secret_not_readable",
        )
    return Resealed(names, contents)


def _sealed(name: str, digest: str, readers: set[str], applied: Applied, args: Namespace, box: Toolbox) -> bytes:
    plain = secret_opening.open_file(applied.contents[digest], name, args, box)
    if plain.purpose is not None:
        _check_purpose(plain.purpose, digest, applied)
    people = [str(one.recipient) for one in applied.trust.operators if one.recipient is not UNSET]
    keys = [key for one in sorted(readers) if (key := recorded_key(applied, one))]
    content = box.keys.sealer().seal(
        wrapped(plain.value, plain.purpose) if plain.purpose is not None else plain.value, (*people, *keys)
    )
    if plain.purpose is not None:
        purposes.note(canonical.digest(content), plain.purpose, box)
    return content


def _check_purpose(purpose: Purpose, digest: str, applied: Applied) -> None:
    """A service may name the ciphertext of another one's secret. Its node cannot use it, and no other one opens it."""
    services = ((address, one) for address, one in applied.table.entries.items() if kind_of(address) == "service")
    used = ((address, name) for address, one in services for name, held in one.secrets.items() if held == digest)
    for address, name in used:
        if why := mismatch(purpose, applied.fleet_id, name, address):
            again = purposes_of.resealed(purpose, name, address)
            raise Conflict(
                f"the secret {name} of {address} {why}; it is sealed to no other node",
                remedy=f"if {address} may have it: `{again}`, then `holdfast apply`",
                code="secret_not_for_it",
            )


def write(found: Resealed, args: Namespace, box: Toolbox) -> dict[str, Any]:
    """Into the fleet directory, where a file is the one that is applied; others stay, with a warning."""
    for name, digest in found.names.items():
        path = os.path.join(args.fleet, path_of(name))
        present = box.disk.read(path, sealed.FILE_BYTES_MAX)
        if present is not None and canonical.digest(_bare(present)) == digest:
            box.disk.replace(path, sealed.armoured(found.contents[digest]), 0o644)
            box.terminal.remark(f"Sealed {path} again, to its new node too.")
        else:
            box.terminal.warn(
                f"{path} is not what is applied; before the next apply: holdfast secret rotate {name} --keep"
            )
    return {"sealed": sorted(found.names)} if found.names else {}


def _bare(content: bytes) -> bytes:
    try:
        return sealed.bare(content)
    except sealed.NotSealed:
        return b""
