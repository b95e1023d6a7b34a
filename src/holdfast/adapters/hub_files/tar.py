"""A hub's state as tar and zstd: `zstd -d | tar -x` makes a state directory of it."""

import io
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from tempfile import TemporaryFile
from typing import IO, Self, cast

import msgspec
import zstandard

from holdfast.adapters.hub_files import staging
from holdfast.adapters.ledger_store.sqlite import copying
from holdfast.errors import Conflict, Failed, Invalid
from holdfast.model import hub_file
from holdfast.model.hub_file import ABOUT, About, Part, damaged

LEVEL = 10
WINDOW_MAX = 1 << 27
HEADER_BYTES_MAX = 16 * 1024
_PIECE = 1 << 20


class TarHubFiles:
    @contextmanager
    def packed(self, state_dir: str, describe: Callable[[str, Mapping[str, Part]], About]) -> Iterator[IO[bytes]]:
        try:
            with staging.scratch(state_dir) as folder, TemporaryFile(dir=folder) as archive:
                _pack(state_dir, folder, describe, archive)
                archive.seek(0)
                yield archive
        except OSError as trouble:
            raise _failed(state_dir, trouble) from trouble

    def stored(self, path: str, fill: Callable[[IO[bytes]], None]) -> int:
        try:
            return staging.store(os.path.abspath(path), fill)
        except OSError as trouble:
            raise _failed(path, trouble) from trouble

    @contextmanager
    def opened(self, path: str) -> Iterator[IO[bytes]]:
        with ExitStack() as held:
            try:
                file = held.enter_context(staging.opened(path, hub_file.SEALED_BYTES_MAX))
            except OSError as trouble:
                raise _unreadable(path, trouble) from trouble
            yield file

    @contextmanager
    def unpacked(self, fill: Callable[[IO[bytes]], None], state_dir: str) -> Iterator["StagedHub"]:
        path = os.path.abspath(state_dir)
        try:
            staging.refuse_existing(path)
            folder = staging.begin(path)
        except OSError as trouble:
            raise _failed(path, trouble) from trouble
        try:
            with TemporaryFile(dir=os.path.dirname(path)) as archive:  # without a name: no crash leaves it
                fill(archive)
                archive.seek(0)
                about = _unpacked(archive, folder)
            yield StagedHub(folder, path, about)
        except OSError as trouble:
            raise _failed(path, trouble) from trouble
        finally:
            staging.clear(folder)


class StagedHub:
    def __init__(self, folder: str, path: str, about: About) -> None:
        self._path = path
        self.folder = folder
        self.about = about

    def publish(self) -> None:
        try:
            staging.publish(self.folder, self._path)
        except OSError as trouble:
            raise _failed(self._path, trouble) from trouble


# ---- writing


def _pack(state_dir: str, folder: str, describe: Callable[[str, Mapping[str, Part]], About], out: IO[bytes]) -> None:
    copying.copy(os.path.join(state_dir, hub_file.LEDGER), os.path.join(folder, hub_file.LEDGER))
    for name in hub_file.PARTS:  # audit.head before audit.jsonl: the lines reach at least as far as the head says
        if name != hub_file.LEDGER:
            _copy(os.path.join(state_dir, name), os.path.join(folder, name))
    there = [name for name in hub_file.PARTS if os.path.exists(os.path.join(folder, name))]
    about = describe(folder, {name: _part(os.path.join(folder, name)) for name in there})
    packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    with (
        packer.stream_writer(out, closefd=False) as squeezed,
        tarfile.open(fileobj=cast(IO[bytes], squeezed), mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        content = msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n"
        tar.addfile(_member(ABOUT, len(content), about.made_s), io.BytesIO(content))
        for name in there:
            with open(os.path.join(folder, name), "rb") as file:
                tar.addfile(_member(name, about.files[name].size_bytes, about.made_s), file)


def _copy(path: str, into: str) -> None:
    try:
        source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(source, "rb") as file, open(into, "xb") as target:
        os.fchmod(target.fileno(), 0o600)
        while piece := file.read(_PIECE):
            target.write(piece)
    if path.endswith(".jsonl"):
        _whole_lines(into)


def _whole_lines(path: str) -> None:
    """The hub may be writing its newest line: that one is left out."""
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _PIECE)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                file.truncate(start + found + 1)
                return
            end = start
        file.truncate(0)


def _part(path: str) -> Part:
    digest = sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
        return Part(file.tell(), digest.hexdigest())


def _member(name: str, size: int, made_s: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, made_s, 0o600
    return member


# ---- reading


class _Plain(tarfile.TarInfo):
    """tarfile reads more than data into memory: headers that carry data, and lists of the pieces of sparse files. One
    of ours has a header with the size of a large member, no more."""

    def _proc_member(self, tar: tarfile.TarFile) -> Self:
        if self.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.XHDTYPE):
            raise tarfile.ReadError(f"a member of type {self.type!r}")
        if self.type == tarfile.XHDTYPE and self.size > HEADER_BYTES_MAX:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]

    def _refuse_sparse(self, *_: object) -> None:
        raise tarfile.ReadError("a sparse file")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


def _unpacked(content: IO[bytes], folder: str) -> About:
    reader = zstandard.ZstdDecompressor(max_window_size=WINDOW_MAX).stream_reader(content)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], reader), mode="r|", tarinfo=_Plain) as tar:
            return _members(tar, folder)
    except (tarfile.TarError, zstandard.ZstdError, EOFError, RecursionError) as trouble:
        raise damaged(str(trouble) or type(trouble).__name__) from trouble


def _members(tar: tarfile.TarFile, folder: str) -> About:
    """Only the names that a hub has, as plain files, each with the digest that the first member gives."""
    first = tar.next()
    if first is None or first.name != ABOUT or not first.isreg() or first.size > hub_file.ABOUT_BYTES_MAX:
        raise damaged(f"it does not begin with {ABOUT}")
    about = hub_file.decode(cast(IO[bytes], tar.extractfile(first)).read())
    found: set[str] = set()
    while (member := tar.next()) is not None:
        part = about.files.get(member.name)
        if part is None or member.name not in hub_file.PARTS or member.name in found or not member.isreg():
            raise damaged(f"it has a member {member.name[:60]!r}")
        if member.size != part.size_bytes or member.size > hub_file.PART_BYTES_MAX:
            raise damaged(f"{member.name} has {member.size:,} bytes, not {part.size_bytes:,}")
        _extract(cast(IO[bytes], tar.extractfile(member)), os.path.join(folder, member.name), part)
        found.add(member.name)
    if missing := sorted({*hub_file.NEEDED, *about.files} - found):
        raise damaged(f"{missing[0]} is not in it")
    return about


def _extract(source: IO[bytes], path: str, part: Part) -> None:
    digest = sha256()
    with open(path, "xb") as file:
        os.fchmod(file.fileno(), 0o600)
        while piece := source.read(_PIECE):
            digest.update(piece)
            file.write(piece)
    if digest.hexdigest() != part.sha256:
        raise damaged(f"{os.path.basename(path)} is not the one that was stored")


def _unreadable(path: str, trouble: OSError) -> Invalid:
    if isinstance(trouble, FileNotFoundError):
        return Invalid(f"{path} does not exist", remedy="name the file that `holdfast hub backup` made")
    why = trouble.strerror or str(trouble)
    return Invalid(f"{path} cannot be read: {why}", remedy="name the file that `holdfast hub backup` made")


def _failed(path: str, trouble: OSError) -> Failed | Conflict:
    if isinstance(trouble, FileExistsError):
        return Conflict(f"{path} exists", remedy="choose another file, or a directory", code="exists")
    if isinstance(trouble, staging.Exists):
        return Conflict(
            f"{path} exists and is not empty",
            remedy="restore into a directory that does not exist: --state-dir DIR; or move that one away first",
            code="already_exists",
        )
    if isinstance(trouble, staging.IsMount):
        return Conflict(
            f"{path} is the root of a file system, so a restored hub cannot take its place in one step",
            remedy=f"restore into a directory in it: --state-dir {path}/hub",
            code="already_exists",
        )
    if isinstance(trouble, FileNotFoundError):
        return Failed(f"{path} is not there", remedy="check the path; a directory must exist first", code="not_there")
    return Failed(
        f"{path} cannot be used: {trouble.strerror or trouble}; nothing was changed",
        remedy="free space there (`df -h` shows it), or give this user access to it, and repeat the command",
        code="no_space" if trouble.errno in staging.OUT_OF_SPACE else "disk_failed",
    )
