"""Put a checkpoint in the place of a service's data: staged beside it, then exchanged in one step.

A staged copy is `<data-dir>/.restoring-<order>-<service>`; it is complete, or it has the name `.half-…`. After the
exchange it holds what was there before, which becomes a checkpoint itself. A crash anywhere leaves the old or the
restored data, never a part of each.
"""

import ctypes
import errno
import os
from contextlib import ExitStack, suppress

from holdfast.adapters.storage import checkpoints, copying, permission, tree
from holdfast.errors import Failed
from holdfast.ports.storage import Checkpoint, Restorable

_EXCHANGE = 2  # RENAME_EXCHANGE
_CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


def stage(root: int, root_path: str, proof: Restorable) -> str:
    """Answers the mark of the staged copy, by which `exchange` knows whether it is in its place already."""
    name, half = _staged(proof), ".half" + _staged(proof)
    if not tree.exists(root, name):
        _drop(root, half, proof)
        try:
            _copy(root, half, proof)
        except BaseException as trouble:
            with suppress(OSError):  # the original error matters; the next attempt drops the incomplete copy
                _drop(root, half, proof)
            if isinstance(trouble, OSError) and trouble.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _no_space(root_path, proof.checkpoint) from trouble
            raise
        os.rename(half, name, src_dir_fd=root, dst_dir_fd=root)
        os.fsync(root)
    return _mark(root, name)


def exchange(root: int, root_path: str, proof: Restorable, staged: str, at_s: float) -> Checkpoint | None:
    service, name = proof.checkpoint.service, _staged(proof)
    there = tree.exists(root, service)
    if tree.exists(root, name) and not (there and _mark(root, service) == staged):
        if there:
            _flush(root, service)
            _exchange(root, service, name, proof)
        else:
            os.rename(name, service, src_dir_fd=root, dst_dir_fd=root)
    if tree.exists(root, ".old" + name) and not tree.exists(root, name):
        os.rename(".old" + name, name, src_dir_fd=root, dst_dir_fd=root)
    _keep_off(root, name, proof)
    os.fsync(root)
    return checkpoints.take_in(root, root_path, name, service, proof.replaced, at_s, proof)


def _keep_off(root: int, replaced: str, proof: Restorable) -> None:
    """Volumes that the checkpoint does not hold (`checkpoint = "off"`) stay with the data."""
    if not proof.checkpoint.off or not tree.exists(root, replaced):
        return
    with ExitStack() as handles:
        source, target = tree.opened(replaced, root), tree.opened(proof.checkpoint.service, root)
        handles.callback(os.close, source)
        handles.callback(os.close, target)
        for volume in proof.checkpoint.off:
            if not tree.exists(source, volume):
                continue
            with suppress(OSError):  # an empty one that was made after a crash; one with content stays
                os.rmdir(volume, dir_fd=target)
            if not tree.exists(target, volume):
                os.rename(volume, volume, src_dir_fd=source, dst_dir_fd=target)
        os.fsync(target)


def unstage(root: int, proof: Restorable) -> None:
    for name in (_staged(proof), ".half" + _staged(proof)):
        _drop(root, name, proof)


def _exchange(root: int, service: str, name: str, proof: Restorable) -> None:
    """In one step where the file system can. Otherwise in two: the same order finds them half done and goes on."""
    done = ctypes.CDLL(None, use_errno=True).renameat2(root, name.encode(), root, service.encode(), _EXCHANGE)
    if done == 0:
        return
    code = ctypes.get_errno()
    if code not in _CANNOT:
        raise OSError(code, os.strerror(code), service)
    os.rename(service, ".old" + name, src_dir_fd=root, dst_dir_fd=root)
    os.rename(name, service, src_dir_fd=root, dst_dir_fd=root)


def _copy(root: int, half: str, proof: Restorable) -> None:
    with ExitStack() as handles:
        source = root
        for part in checkpoints.place(proof.checkpoint).split("/"):
            source = tree.opened(part, source)
            handles.callback(os.close, source)
        os.mkdir(half, 0o700, dir_fd=root)
        target = tree.opened(half, root)
        handles.callback(os.close, target)
        copying.copy(source, target)


def _flush(root: int, service: str) -> None:
    """What its containers wrote last becomes a checkpoint: that is durable."""
    handle = tree.opened(service, root)
    try:
        ctypes.CDLL(None, use_errno=True).syncfs(handle)
    finally:
        os.close(handle)


def _drop(root: int, name: str, proof: Restorable) -> None:
    if tree.exists(root, name):
        handle = tree.opened(name, root)
        try:
            tree.empty_out(handle)
        finally:
            os.close(handle)
        os.rmdir(name, dir_fd=root)


def _mark(root: int, name: str) -> str:
    return str(os.stat(name, dir_fd=root, follow_symlinks=False).st_ino)


def _staged(proof: Restorable) -> str:
    return f".restoring-{permission.check_id(proof.order)}-{permission.check_name(proof.checkpoint.service)}"


def _no_space(root_path: str, checkpoint: Checkpoint) -> Failed:
    return Failed(
        f"there is not enough space below {root_path} to restore a checkpoint of {checkpoint.service} "
        f"({checkpoint.size_bytes} bytes); the data is unchanged",
        remedy=f"free space on its file system: df {root_path}",
        code="no_space",
    )
