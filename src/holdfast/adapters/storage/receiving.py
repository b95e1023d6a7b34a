"""A copy from elsewhere that becomes a checkpoint: written into `.incoming-<id>`, then named in one step."""

import ctypes
import os
from collections.abc import Collection
from contextlib import ExitStack

from holdfast.adapters.storage import checkpoints, filling, permission, tree
from holdfast.errors import Conflict, Failed
from holdfast.ports.runtime import ImageDirectory
from holdfast.ports.storage import Checkpoint, Receivable

INCOMING = ".incoming-"
VOLUME_MODE = 0o755


def begin(root: int, root_path: str, proof: Receivable) -> str:
    service, name = permission.check_name(proof.service), _name(proof)
    with checkpoints.shelf_of(root, service, made=True) as shelf:
        assert shelf is not None
        _drop(shelf, name, proof)
        os.mkdir(name, 0o700, dir_fd=shelf)
        return os.path.join(root_path, checkpoints.PLACE, service, name)


def place(proof: Receivable) -> str:
    return f"{checkpoints.PLACE}/{permission.check_name(proof.service)}/{_name(proof)}"


def volume(root: int, root_path: str, proof: Receivable, name: str, image: ImageDirectory | None, owner: str) -> str:
    permission.check_name(name)
    with checkpoints.shelf_of(root, permission.check_name(proof.service), made=True) as shelf, ExitStack() as handles:
        assert shelf is not None
        top = tree.opened(_name(proof), shelf)
        handles.callback(os.close, top)
        if not tree.exists(top, name):
            if image is not None:
                filling.fill_in(top, root_path, proof.service, name, image, owner)
            else:
                made = tree.made(name, top, VOLUME_MODE)
                handles.callback(os.close, made)
                if owner:
                    os.fchown(made, *map(int, owner.split(":")))
        return os.path.join(root_path, place(proof), name)


def end(
    root: int, root_path: str, proof: Receivable, at_s: float, off: Collection[str], drop: Collection[str]
) -> Checkpoint:
    service, id, name = permission.check_name(proof.service), proof.id, _name(proof)
    with checkpoints.shelf_of(root, service, made=True) as shelf:
        assert shelf is not None
        if not tree.exists(shelf, id):
            handle = tree.opened(name, shelf)
            try:
                for one in drop:
                    _without(handle, one)
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


def _without(top: int, name: str) -> None:
    if not tree.exists(top, name):
        return
    if not tree.is_directory(top, name):
        os.unlink(name, dir_fd=top)
        return
    handle = tree.opened(name, top)
    try:
        tree.empty_out(handle)
    finally:
        os.close(handle)
    os.rmdir(name, dir_fd=top)


def resumed(root: int, root_path: str, proof: Receivable) -> str | None:
    with checkpoints.shelf_of(root, permission.check_name(proof.service), made=False) as shelf:
        is_there = shelf is not None and tree.exists(shelf, _name(proof))
    return os.path.join(root_path, place(proof)) if is_there else None


def take_in(root: int, root_path: str, proof: Receivable, drop: Collection[str]) -> None:
    service = permission.check_name(proof.service)
    with checkpoints.shelf_of(root, service, made=False) as shelf:
        if shelf is None or not tree.exists(shelf, _name(proof)):
            if tree.exists(root, service):
                return  # before a crash
            raise Failed(
                f"there is no copy of {service} to put into {root_path}",
                remedy="`holdfast status` shows how far the move is",
                code="not_found",
            )
        try:
            if tree.exists(root, service):
                os.rmdir(service, dir_fd=root)
        except OSError:
            raise Conflict(
                f"{root_path}/{service} has content, so the data that moves here is not put there",
                remedy=f"`holdfast retired` lists it; `holdfast migrate {service} --to NODE --force` sets it aside",
                code="data_present",
            ) from None
        handle = tree.opened(_name(proof), shelf)
        try:
            for one in drop:
                _without(handle, one)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(_name(proof), service, src_dir_fd=shelf, dst_dir_fd=root)
        os.fsync(shelf)
        os.fsync(root)


def drop(root: int, proof: Receivable) -> None:
    with checkpoints.shelf_of(root, permission.check_name(proof.service), made=False) as shelf:
        if shelf is not None:
            _drop(shelf, _name(proof), proof)


def _name(proof: Receivable) -> str:
    return INCOMING + permission.check_id(proof.id)


def _drop(shelf: int, name: str, proof: Receivable) -> None:
    _without(shelf, name)
