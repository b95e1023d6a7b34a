"""Checkpoints in `<data-dir>/.checkpoints/<service>/<id>`: only root can read them; each is complete or absent.

A copy is made and deleted under another name, `.half-<id>`; a crash leaves only that name, which is never used.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import msgspec

from holdfast.adapters.storage import copying, permission, tree
from holdfast.errors import Failed
from holdfast.model.ids import is_name
from holdfast.ports.storage import Checkpoint, Discardable

PLACE = ".checkpoints"


def place(checkpoint: Checkpoint) -> str:
    """The path below the data directory, built from its names and not from its stored path."""
    return f"{PLACE}/{permission.check_name(checkpoint.service)}/{permission.check_id(checkpoint.id)}"


def make(root: int, root_path: str, service: str, id: str, at_s: float) -> Checkpoint:
    permission.check_id(id)
    if not tree.exists(root, permission.check_name(service)):
        raise _no_data(root_path, service)
    with _shelf(root, service, made=True) as shelf:
        assert shelf is not None
        if tree.exists(shelf, id):
            return _read(shelf, root_path, service, id)
        drop_half(shelf, id)
        try:
            copied = _copied(root, shelf, service, id)
            path = os.path.join(root_path, PLACE, service, id)
            made = Checkpoint(service, id, path, copied.size_bytes, at_s, copied.left_out)
            _write_about(shelf, made)
            complete(shelf, id)
        except BaseException as trouble:
            with suppress(OSError):  # the original error matters; the next attempt drops the incomplete copy
                drop_half(shelf, id)
            if isinstance(trouble, OSError) and trouble.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _no_space(root_path, service) from trouble
            raise
        return made


def found(root: int, root_path: str) -> list[Checkpoint]:
    if not tree.exists(root, PLACE):
        return []
    place = tree.opened(PLACE, root)
    try:
        services = [name for name in sorted(os.listdir(place)) if is_name(name) and tree.is_directory(place, name)]
    finally:
        os.close(place)
    every = [checkpoint for service in services for checkpoint in _of(root, root_path, service)]
    return sorted(every, key=lambda one: (one.service, one.made_s, one.id))


def discard(root: int, proof: Discardable) -> None:
    service, id = permission.check_name(proof.checkpoint.service), permission.check_id(proof.checkpoint.id)
    with _shelf(root, service, made=False) as shelf:
        if shelf is None:
            return
        drop_half(shelf, id)
        if tree.exists(shelf, id):
            os.rename(id, _half(id), src_dir_fd=shelf, dst_dir_fd=shelf)
            os.fsync(shelf)
            drop_half(shelf, id)
        with suppress(FileNotFoundError):
            os.unlink(_about(id), dir_fd=shelf)


def drop_half(shelf: int, id: str) -> None:
    """Delete an incomplete copy: a crash cut it short, or it is being discarded."""
    half = _half(id)
    if not tree.exists(shelf, half):
        return
    handle = tree.opened(half, shelf)
    try:
        tree.empty_out(handle)
    finally:
        os.close(handle)
    os.rmdir(half, dir_fd=shelf)


def complete(shelf: int, id: str) -> None:
    """Give the finished copy its name."""
    os.rename(_half(id), id, src_dir_fd=shelf, dst_dir_fd=shelf)
    os.fsync(shelf)


def _copied(root: int, shelf: int, service: str, id: str) -> copying.Copied:
    source = tree.opened(service, root)
    try:
        os.mkdir(_half(id), 0o700, dir_fd=shelf)
        target = tree.opened(_half(id), shelf)
        try:
            return copying.copy(source, target)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _of(root: int, root_path: str, service: str) -> Iterator[Checkpoint]:
    with _shelf(root, service, made=False) as shelf:
        assert shelf is not None
        for id in os.listdir(shelf):
            if permission.is_id(id) and tree.is_directory(shelf, id):
                yield _read(shelf, root_path, service, id)


def _read(shelf: int, root_path: str, service: str, id: str) -> Checkpoint:
    """From its description file; if that is lost, from the copy itself."""
    path = os.path.join(root_path, PLACE, service, id)
    with suppress(OSError, msgspec.MsgspecError):
        file = os.open(_about(id), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=shelf)
        with os.fdopen(file, "rb") as text:
            about = msgspec.json.decode(text.read(1 << 16), type=Checkpoint)
        return msgspec.structs.replace(about, service=service, id=id, path=path)
    handle = tree.opened(id, shelf)
    try:
        return Checkpoint(service, id, path, tree.count_entries(handle).size_bytes, os.fstat(handle).st_ctime)
    finally:
        os.close(handle)


def _write_about(shelf: int, made: Checkpoint) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(_about(made.id), flags, 0o600, dir_fd=shelf), "wb") as file:
        file.write(msgspec.json.encode(made))
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _shelf(root: int, service: str, made: bool) -> Iterator[int | None]:
    """The directory of one service's checkpoints; None if it does not exist and must not be created."""
    with ExitStack() as handles:
        at: int | None = root
        for name in (PLACE, service):
            at = _below(at, name, made)
            if at is None:
                break
            handles.callback(os.close, at)
        yield at


def _below(above: int | None, name: str, made: bool) -> int | None:
    assert above is not None
    if made:
        return tree.made(name, above, 0o700)
    with suppress(FileNotFoundError):
        return tree.opened(name, above)
    return None


def _half(id: str) -> str:
    return f".half-{id}"


def _about(id: str) -> str:
    return f".about-{id}"


def _no_data(root_path: str, service: str) -> Failed:
    return Failed(
        f"{service} has no data on this node, so there is nothing to checkpoint",
        remedy=f"check the name: ls {root_path}",
        code="not_found",
    )


def _no_space(root_path: str, service: str) -> Failed:
    return Failed(
        f"there is not enough space below {root_path} for a checkpoint of {service}; the data is unchanged, "
        "and the incomplete copy was removed",
        remedy=f"free space on its file system: df {root_path}; du -s {root_path}/* {root_path}/{PLACE}/*",
        code="no_space",
    )
