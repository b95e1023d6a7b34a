"""The files that Envoy reads: replaced atomically; a change by another program is detected (M-07)."""

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

import msgspec
from msgspec import Struct

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.proxy.envoy.listeners import opener_name
from holdfast.adapters.proxy.envoy.names import INTERNAL, PLAIN, PUBLIC
from holdfast.adapters.proxy.envoy.supervisor import BEFORE, WATCHED
from holdfast.errors import Failed

CLUSTERS, LISTENERS = "clusters/all.json", "listeners/all.json"
TABLES = {kind: f"requests/{kind}.json" for kind in (INTERNAL, PUBLIC, PLAIN)}
OPENERS = {kind: f"openers/{kind}.json" for kind in (INTERNAL, PUBLIC)}
PLAIN_TABLE = TABLES[PLAIN]
FOLDERS = (*WATCHED, BEFORE)
STATISTIC = {
    CLUSTERS: "cluster_manager.cds",
    LISTENERS: "listener_manager.lds",
    **{TABLES[kind]: f"http.{kind}.rds.{kind}" for kind in TABLES},
    **{OPENERS[kind]: f"extension_config_discovery.network_filter.{opener_name(kind)}" for kind in OPENERS},
}


def secret_file(name: str) -> str:
    return f"secrets/{name}.json"


def statistic_of(file: str) -> str:
    """The statistic in which Envoy reports the loaded version of this file."""
    stem = STATISTIC.get(file) or f"sds.{os.path.basename(file).removesuffix('.json')}"
    return f"{stem}.version_text"


class Written(Struct, frozen=True):
    """A file as we wrote it. `content` is a digest; `version` is unique, even for the same content."""

    version: str
    content: str
    size: int
    changed_ns: int
    inode: int


def content_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def replace(path: str, body: bytes) -> os.stat_result:
    """Atomic for readers, but not flushed: a flush takes longer than everything else and is done afterwards."""
    try:
        with open(path + ".new", "wb", opener=_private) as file:
            file.write(body)
            file.flush()
            found = os.fstat(file.fileno())
        os.rename(path + ".new", path)
    except OSError as trouble:
        with suppress(OSError):
            os.unlink(path + ".new")
        raise unwritable(path, trouble) from trouble
    return found


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def unwritable(path: str, trouble: OSError) -> Failed:
    return Failed(
        f"cannot replace {path}: {trouble.strerror}; its old content is unchanged",
        remedy=f"free space on the file system of {os.path.dirname(path)}, or repair it; the agent retries "
        "automatically",
        code="no_space" if trouble.errno in (errno.ENOSPC, errno.EDQUOT) else "disk_failed",
    )


class EnvoyFiles:
    """While a set is not acknowledged, `before` holds the previous files, for a rollback by us or the supervisor."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._disk = PosixDisk()
        self._unflushed: set[str] = set()

    def prepare(self) -> None:
        for folder in FOLDERS:
            if not os.path.isdir(self.path(folder)):
                self._disk.make_directory(self.path(folder))

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    # ---- writing

    def put(self, name: str, resources: bytes, flushed: bool = True) -> Written:
        content = content_digest(resources)
        version = f"{content[:12]}-{time.time_ns():x}"
        body = b'{"version_info":"%s","resources":%s}' % (version.encode(), resources)
        if flushed:
            self._unflushed.add(name)
        return self._put(name, body, content, version)

    def put_bytes(self, name: str, body: bytes) -> Written:
        return self._put(name, body, content_digest(body), "")

    def put_plain(self, name: str, document: dict[str, object]) -> None:
        """Read only at start: not part of any set."""
        body = msgspec.json.encode(document)
        with suppress(OSError), open(self.path(name), "rb") as file:
            if file.read() == body:
                return
        self._disk.replace(self.path(name), body)

    def _put(self, name: str, body: bytes, content: str, version: str) -> Written:
        self._keep(name)
        found = replace(self.path(name), body)
        return Written(version, content, found.st_size, found.st_mtime_ns, found.st_ino)

    def flush(self) -> None:
        """Makes routes survive a power cut. Certificates are copies: a starting agent writes them again."""
        for name in sorted(self._unflushed):
            for path in (self.path(name), os.path.dirname(self.path(name))):
                with suppress(OSError):
                    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                    try:
                        os.fsync(handle)
                    finally:
                        os.close(handle)
        self._unflushed.clear()

    def read(self, name: str) -> bytes:
        """Empty if it is missing or unreadable."""
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except OSError:
            return b""

    # ---- comparing

    def is_blank(self, name: str) -> bool:
        """Missing, or with an empty list of resources."""
        content = self.read(name)
        return not content or content.endswith(b'"resources":[]}')

    def intact(self, name: str, written: Written) -> bool:
        try:
            found = os.stat(f"{self.directory}/{name}", follow_symlinks=False)
        except OSError:
            return False
        return (
            found.st_mtime_ns == written.changed_ns and found.st_ino == written.inode and found.st_size == written.size
        )

    # ---- rollback

    def _keep(self, name: str) -> None:
        kept = self.path(os.path.join(BEFORE, name))
        try:
            os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
            os.link(self.path(name), kept)
        except (FileNotFoundError, FileExistsError):
            return  # there was no file, or it is kept already: the first one of an unacknowledged set is the good one
        except OSError as trouble:
            raise unwritable(self.path(name), trouble) from trouble

    def go_back(self) -> None:
        for name in self._kept():
            with suppress(OSError):
                os.rename(self.path(os.path.join(BEFORE, name)), self.path(name))

    def acknowledge(self) -> None:
        for name in self._kept():
            with suppress(OSError):
                os.unlink(self.path(os.path.join(BEFORE, name)))

    def _kept(self) -> Iterable[str]:
        """Clusters last: the restored files must not name a cluster that is gone."""
        return sorted(self._below(BEFORE), key=lambda name: (name == CLUSTERS, name))

    def _below(self, folder: str) -> Iterator[str]:
        top = self.path(folder)
        for above, _, names in os.walk(top):
            yield from (os.path.join(above, name)[len(top) + 1 :] for name in names)

    def sweep_secrets(self, wanted: Collection[str]) -> None:
        for name in list(self._below("secrets")):
            if f"secrets/{name}" not in wanted:
                with suppress(OSError):
                    os.unlink(self.path(f"secrets/{name}"))

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
