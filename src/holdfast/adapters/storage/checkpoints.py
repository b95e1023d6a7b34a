"""Checkpoints in `<data-dir>/.checkpoints/<service>/<id>`: only root can read them; each is complete or absent.

A copy is made and deleted under another name, `.half-<id>`; a crash leaves only that name, which the next checkpoint of
the service continues. `.stamps-<id>` says which state of which file the copy has, `.about-<id>` describes a checkpoint.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import msgspec

from holdfast.adapters.storage import blocks, copying, held, permission, stamps, tree
from holdfast.adapters.storage.held import HALF
from holdfast.errors import Failed
from holdfast.model.ids import is_name
from holdfast.ports.storage import Ahead, Checkpoint, Discardable, Need, Restorable

PLACE = ".checkpoints"
PASSES_MAX = 4
SHORT_S = 1.0


def place(checkpoint: Checkpoint) -> str:
    """The path below the data directory, built from its names and not from its stored path."""
    return f"{PLACE}/{permission.check_name(checkpoint.service)}/{permission.check_id(checkpoint.id)}"


def make(root: int, root_path: str, service: str, id: str, at_s: float, off: frozenset[str]) -> Checkpoint:
    permission.check_id(id)
    with _shelf_of_data(root, root_path, service) as shelf:
        if tree.exists(shelf, id):
            return read(shelf, root_path, service, id)
        with _whole_or_nothing(shelf, id, root_path, service):
            copied = _pass(root, shelf, service, id, copying.Way(without=off))
            path = os.path.join(root_path, PLACE, service, id)
            made = Checkpoint(
                service, id, path, copied.size_bytes, at_s, copied.left_out, copied.files, tuple(sorted(off))
            )
            write_about(shelf, made)
            complete(shelf, id)
        return made


def take_in(
    root: int, root_path: str, name: str, service: str, id: str, at_s: float, proof: Restorable
) -> Checkpoint | None:
    """Make a checkpoint of a whole directory `name` that a restore replaced. Again: the same one; None without any."""
    with shelf_of(root, service, made=True) as shelf:
        assert shelf is not None
        if tree.exists(root, name):
            handle = tree.opened(name, root)
            try:
                size_bytes, files = tree.measured(handle)
            finally:
                os.close(handle)
            path = os.path.join(root_path, PLACE, service, id)
            write_about(shelf, Checkpoint(service, id, path, size_bytes, at_s, (), files, proof.checkpoint.off))
            os.rename(name, id, src_dir_fd=root, dst_dir_fd=shelf)
            os.fsync(shelf)
        return read(shelf, root_path, service, id) if tree.exists(shelf, id) else None


def ahead(root: int, root_path: str, service: str, id: str, off: frozenset[str], tell: blocks.Tell) -> Ahead:
    """Passes over the data until one is short, or as many as are of use."""
    permission.check_id(id)
    began_s, written_bytes = time.monotonic(), 0
    with _shelf_of_data(root, root_path, service) as shelf, _whole_or_nothing(shelf, id, root_path, service):
        for _ in range(PASSES_MAX if not tree.exists(shelf, id) else 0):
            pass_s = time.monotonic()
            try:
                written_bytes += _pass(root, shelf, service, id, copying.Way(True, off, tell=tell)).written_bytes
            except OSError as trouble:
                if trouble.errno != errno.ESTALE:
                    raise
                break  # a program moves directories: the checkpoint, without writers, copies the rest
            if time.monotonic() - pass_s < SHORT_S:
                break
    return Ahead(written_bytes, time.monotonic() - began_s)


def need(root: int, service: str, off: frozenset[str]) -> Need | None:
    if not tree.exists(root, permission.check_name(service)):
        return None
    with shelf_of(root, service, made=True) as shelf:
        assert shelf is not None
        shares = blocks.can_clone(shelf)
        own = stamps.read(shelf, half[len(HALF) :]) if (half := _any_half(shelf)) else stamps.NONE
        newest, began_ns = _newest_stamps(shelf)[1], time.time_ns()
        size_bytes = files = written_bytes = 0
        source = tree.opened(service, root)
        try:
            for path, about in tree.unless_moved(_files(source, off)):
                size_bytes, files = size_bytes + about.st_size, files + 1
                stamp = stamps.stamp(path, about)
                is_there = stamp in own or (stamp in newest and copying.may_share(about, began_ns))
                written_bytes += 0 if shares or is_there else min(about.st_size, about.st_blocks * 512)
        finally:
            os.close(source)
        disk = os.fstatvfs(shelf)
        held_bytes = 0 if shares else _held_bytes(root)
        return Need(
            size_bytes, files, written_bytes, blocks.room_bytes(shelf), disk.f_blocks * disk.f_frsize, held_bytes
        )


def drop_unused(root: int, service: str) -> None:
    with shelf_of(root, permission.check_name(service), made=False) as shelf:
        if shelf is None:
            return
        for name in sorted(os.listdir(shelf)):  # copies before their stamps
            if name.startswith(HALF):
                drop_half(shelf, name[len(HALF) :])
            elif name.startswith(stamps.PREFIX) and not tree.exists(shelf, name[len(stamps.PREFIX) :]):
                stamps.drop_stamps(shelf, name[len(stamps.PREFIX) :])


def found(root: int, root_path: str) -> list[Checkpoint]:
    every = [checkpoint for service in _services(root) for checkpoint in _of(root, root_path, service)]
    return sorted(every, key=lambda one: (one.service, one.made_s, one.id))


def _services(root: int) -> list[str]:
    if not tree.exists(root, PLACE):
        return []
    place = tree.opened(PLACE, root)
    try:
        return [name for name in tree.directories(place) if is_name(name)]
    finally:
        os.close(place)


def discard(root: int, proof: Discardable) -> None:
    service, id = permission.check_name(proof.checkpoint.service), permission.check_id(proof.checkpoint.id)
    with shelf_of(root, service, made=False) as shelf:
        if shelf is None:
            return
        drop_half(shelf, id)
        if tree.exists(shelf, id):
            held.pass_on(shelf, id)
            stamps.drop_stamps(shelf, id)  # first: what is deleted half must not count as a copy
            os.rename(id, _half(id), src_dir_fd=shelf, dst_dir_fd=shelf)
            os.fsync(shelf)
            drop_half(shelf, id)
        with suppress(FileNotFoundError):
            os.unlink(_about(id), dir_fd=shelf)


def drop_half(shelf: int, id: str) -> None:
    """Delete an incomplete copy: a crash cut it short, or it is being discarded."""
    half = _half(id)
    if not tree.exists(shelf, id):
        stamps.drop_stamps(shelf, id)
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


def _pass(root: int, shelf: int, service: str, id: str, way: copying.Way) -> copying.Copied:
    """Bring the copy to the state of the data. Its stamps are written when it is durable, so that a crash at any point
    leaves a copy that the next pass completes."""
    continue_half(shelf, id)
    handles = ExitStack()
    with handles:
        source, target = tree.opened(service, root), tree.opened(_half(id), shelf)
        handles.callback(os.close, source)
        handles.callback(os.close, target)
        newest, shared = _newest_stamps(shelf)
        if newest and shared:
            top = tree.opened(newest, shelf)
            handles.callback(os.close, top)
            way = msgspec.structs.replace(way, earlier=copying.Earlier(top, shared))
        copied, found = copying.update(source, target, stamps.read(shelf, id), way)
        stamps.keep(shelf, id, found)
        return copied


def continue_half(shelf: int, id: str) -> None:
    """A copy that an earlier attempt left is taken over: it is compared file by file. Others are deleted."""
    halves = [name for name in os.listdir(shelf) if name.startswith(HALF)]
    if _half(id) not in halves and halves:
        left = halves.pop()[len(HALF) :]
        if not tree.exists(shelf, left) and tree.exists(shelf, stamps.name(left)):
            os.rename(stamps.name(left), stamps.name(id), src_dir_fd=shelf, dst_dir_fd=shelf)
        os.rename(_half(left), _half(id), src_dir_fd=shelf, dst_dir_fd=shelf)
    elif not halves:
        stamps.drop_stamps(shelf, id)
        os.mkdir(_half(id), 0o700, dir_fd=shelf)
    for name in halves:
        if name != _half(id):
            drop_half(shelf, name[len(HALF) :])


def ids(above: int, shelf: str) -> list[str]:
    """Of the complete copies in the directory `shelf`."""
    try:
        handle = tree.opened(shelf, above)
    except (FileNotFoundError, NotADirectoryError):
        return []
    try:
        return [id for id in tree.directories(handle) if permission.is_id(id)]
    finally:
        os.close(handle)


def _any_half(shelf: int) -> str:
    return next((name for name in os.listdir(shelf) if name.startswith(HALF)), "")


def _newest_stamps(shelf: int) -> tuple[str, frozenset[bytes]]:
    """Of the newest complete copy that has some."""
    ids = [id for id in tree.directories(shelf) if permission.is_id(id) and tree.exists(shelf, stamps.name(id))]
    newest = max(ids, key=lambda id: os.stat(stamps.name(id), dir_fd=shelf).st_mtime_ns, default="")
    return newest, stamps.read(shelf, newest) if newest else stamps.NONE


def _files(top: int, off: frozenset[str]) -> Iterator[tuple[str, os.stat_result]]:
    """With their paths, each file once."""
    path: list[str] = []
    seen: set[int] = set()
    for visit in tree.walk(top, off):
        if visit.kind == "enter":
            path.append(visit.name)
        elif visit.kind == "leave" and path:
            path.pop()
        elif visit.kind == "entry" and stat.S_ISREG(visit.about.st_mode) and visit.about.st_ino not in seen:
            if visit.about.st_nlink > 1:
                seen.add(visit.about.st_ino)
            yield "/".join([*path, visit.name]), visit.about


def _held_bytes(root: int) -> int:
    total_bytes = 0
    for service in _services(root):
        with shelf_of(root, service, made=False) as shelf:
            total_bytes += held.of_shelf(shelf) if shelf is not None else 0
    return total_bytes


@contextmanager
def _whole_or_nothing(shelf: int, id: str, root_path: str, service: str) -> Iterator[None]:
    """A full disk gets its space back at once; any other error leaves a copy that the next attempt continues."""
    try:
        yield
    except OSError as trouble:
        if trouble.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        with suppress(OSError):  # the original error matters; the next attempt drops the incomplete copy
            drop_half(shelf, id)
        raise _no_space(root_path, service) from trouble


@contextmanager
def _shelf_of_data(root: int, root_path: str, service: str) -> Iterator[int]:
    if not tree.exists(root, permission.check_name(service)):
        raise _no_data(root_path, service)
    with shelf_of(root, service, made=True) as shelf:
        assert shelf is not None
        yield shelf


def _of(root: int, root_path: str, service: str) -> Iterator[Checkpoint]:
    with shelf_of(root, service, made=False) as shelf:
        if shelf is None:  # it was set aside meanwhile
            return
        for id in filter(permission.is_id, tree.directories(shelf)):
            with suppress(FileNotFoundError):  # another service's rollout works meanwhile: this one was deleted
                yield read(shelf, root_path, service, id)


def read(shelf: int, root_path: str, service: str, id: str) -> Checkpoint:
    """From its description file; if that is lost, from the copy itself."""
    path = os.path.join(root_path, PLACE, service, id)
    with suppress(OSError, msgspec.MsgspecError):
        file = os.open(_about(id), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=shelf)
        with os.fdopen(file, "rb") as text:
            about = msgspec.json.decode(text.read(1 << 16), type=Checkpoint)
        return msgspec.structs.replace(about, service=service, id=id, path=path)
    handle = tree.opened(id, shelf)
    try:
        count = tree.count_entries(handle)
        return Checkpoint(service, id, path, count.size_bytes, os.fstat(handle).st_ctime, (), count.files)
    finally:
        os.close(handle)


def write_about(shelf: int, made: Checkpoint) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(_about(made.id), flags, 0o600, dir_fd=shelf), "wb") as file:
        file.write(msgspec.json.encode(made))
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def shelf_of(root: int, service: str, made: bool) -> Iterator[int | None]:
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
    return HALF + id


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
