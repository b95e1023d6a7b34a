"""A copy from elsewhere that becomes a checkpoint: written into `.incoming-<id>`, then named in one step."""

import ctypes
import os
from collections.abc import Collection

from holdfast.adapters.storage import checkpoints, permission, tree
from holdfast.ports.storage import Checkpoint, Receivable

INCOMING = ".incoming-"


def begin(root: int, root_path: str, proof: Receivable) -> str:
    service, name = permission.check_name(proof.service), _name(proof)
    with checkpoints.shelf_of(root, service, made=True) as shelf:
        assert shelf is not None
        _drop(shelf, name, proof)
        os.mkdir(name, 0o700, dir_fd=shelf)
        return os.path.join(root_path, checkpoints.PLACE, service, name)


def end(root: int, root_path: str, proof: Receivable, at_s: float, off: Collection[str]) -> Checkpoint:
    service, id, name = permission.check_name(proof.service), proof.id, _name(proof)
    with checkpoints.shelf_of(root, service, made=True) as shelf:
        assert shelf is not None
        if not tree.exists(shelf, id):
            handle = tree.opened(name, shelf)
            try:
                size_bytes, files = tree.measured(handle)
                ctypes.CDLL(None, use_errno=True).syncfs(handle)
            finally:
                os.close(handle)
            path = os.path.join(root_path, checkpoints.PLACE, service, id)
            made = Checkpoint(service, id, path, size_bytes, at_s, (), files, tuple(sorted(off)))
            checkpoints.write_about(shelf, made)
            os.rename(name, id, src_dir_fd=shelf, dst_dir_fd=shelf)
            os.fsync(shelf)
        return checkpoints.read(shelf, root_path, service, id)


def drop(root: int, proof: Receivable) -> None:
    with checkpoints.shelf_of(root, permission.check_name(proof.service), made=False) as shelf:
        if shelf is not None:
            _drop(shelf, _name(proof), proof)


def _name(proof: Receivable) -> str:
    return INCOMING + permission.check_id(proof.id)


def _drop(shelf: int, name: str, proof: Receivable) -> None:
    if tree.exists(shelf, name):
        handle = tree.opened(name, shelf)
        try:
            tree.empty_out(handle)
        finally:
            os.close(handle)
        os.rmdir(name, dir_fd=shelf)
