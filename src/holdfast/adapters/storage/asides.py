"""Purged data, set aside or about to be deleted: `<data-dir>/.purging-<order>-<service>`, beside it `….checkpoints`
and `….passports`. Only root reads it, no container mounts it.
"""

import os
import re

from holdfast.adapters.storage import checkpoints, passports, permission, tree
from holdfast.errors import Conflict
from holdfast.ports.storage import Disposable, Purgeable, Returnable, SetAside

_NAME = re.compile(r"\.purging-([0-9a-f]{32})-([a-z][a-z0-9-]*)(\.checkpoints|\.passports)?")

# What belongs to a service, and what the name of it ends in when it is set aside.
_PASSPORTS = ".passports"
_PARTS = (("", ""), (checkpoints.PLACE, ".checkpoints"), (passports.PLACE, _PASSPORTS))


def aside(name: str, order: str) -> str:
    return f".purging-{permission.check_id(order)}-{permission.check_name(name)}"


def exists(root: int, name: str, order: str) -> bool:
    return any(tree.exists(root, aside(name, order) + ending) for _, ending in _PARTS)


def orders(root: int, name: str) -> list[str]:
    found = (_NAME.fullmatch(one) for one in os.listdir(root))
    return sorted({match[1] for match in found if match is not None and match[2] == name})


def found(root: int, root_path: str) -> list[SetAside]:
    names = (_NAME.fullmatch(one) for one in os.listdir(root))
    known = sorted({(match[2], match[1]) for match in names if match is not None})
    return [_measured(root, root_path, service, order) for service, order in known]


def _measured(root: int, root_path: str, service: str, order: str) -> SetAside:
    data = aside(service, order)
    here, copies = tree.count_at(root, [data]), tree.count_at(root, [data + ".checkpoints"])
    return SetAside(
        service,
        order,
        os.path.join(root_path, data),
        here.size_bytes if here is not None else 0,
        here.files if here is not None else 0,
        len(checkpoints.ids(root, data + ".checkpoints")),
        copies.size_bytes if copies is not None else 0,
    )


def move(root: int, proof: Purgeable) -> None:
    """In the order of _PARTS, so that it goes on where a crash ended it: what was made since then stays."""
    name, data = proof.service, aside(proof.service, proof.order)
    there = [tree.exists(root, data + ending) for _, ending in _PARTS]
    for at, (place, ending) in enumerate(_PARTS):
        above = None if any(there[at:]) else _above(root, place)
        if above is None:
            continue
        try:
            if tree.exists(above, name):
                os.rename(name, data + ending, src_dir_fd=above, dst_dir_fd=root)
                os.fsync(above)
        finally:
            os.close(above)
    os.fsync(root)


def back(root: int, node: str, proof: Returnable) -> None:
    """The data last: while it is set aside, the order is not done. Passports without their data are deleted: they say
    nothing about what was made in its place since."""
    name, data = proof.service, aside(proof.service, proof.order)
    if not tree.exists(root, data):
        _delete(root, data + _PASSPORTS)
    elif tree.exists(root, name):
        _remove_empty(root, node, proof)
    for place, ending in reversed(_PARTS):
        if not tree.exists(root, data + ending):
            continue
        if not place:
            os.rename(data, name, src_dir_fd=root, dst_dir_fd=root)
            continue
        above = tree.made(place, root, 0o700)
        try:
            _merge(root, data + ending, above, proof)
        finally:
            os.close(above)
    os.fsync(root)


def dispose(root: int, proof: Disposable) -> None:
    """Interrupted anywhere, the rest is found again."""
    for _, ending in _PARTS:
        _delete(root, aside(proof.service, proof.order) + ending)
    os.fsync(root)


def _delete(root: int, at: str) -> None:
    if not tree.exists(root, at):
        return
    handle = tree.opened(at, root)
    try:
        tree.empty_out(handle)
    finally:
        os.close(handle)
    os.rmdir(at, dir_fd=root)


def _merge(root: int, aside: str, above: int, proof: Returnable) -> None:
    """Into a directory that may have new entries since: ids of checkpoints differ, passports are those of the data."""
    source, target = tree.opened(aside, root), tree.made(proof.service, above, 0o700)
    try:
        for entry in os.listdir(source):
            os.rename(entry, entry, src_dir_fd=source, dst_dir_fd=target)
        os.fsync(target)
    finally:
        os.close(source)
        os.close(target)
    os.rmdir(aside, dir_fd=root)


def _remove_empty(root: int, node: str, proof: Returnable) -> None:
    name = proof.service
    try:
        os.rmdir(name, dir_fd=root)
    except OSError as trouble:
        raise Conflict(
            f"data.{name} was made again since the purge, and is not empty",
            remedy=f"set that aside first: `holdfast purge {name} -n {node}`, then restore again",
            code="not_empty",
        ) from trouble


def _above(root: int, place: str) -> int | None:
    if not place:
        return os.dup(root)
    return tree.opened(place, root) if tree.exists(root, place) else None
