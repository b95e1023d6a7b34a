"""Do what lies in the directory of requests, write each result, and end. The program `holdfast-mounts`."""

import os
import stat
import sys
from contextlib import suppress

import msgspec

from holdfast.mounts import mounting
from holdfast.mounts.requests import FILE_BYTES_MAX, REQUESTS_MAX, Order, Result, judge

LIST, REQUESTS, RESULTS = "allowed.json", "requests", "results"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def main(base_dir: str, storage_dir: str) -> int:
    """`base_dir` has the list, `requests/` and `results/`. A request is removed when its result is written."""
    os.makedirs(storage_dir, 0o700, exist_ok=True)
    base = os.open(base_dir, _DIRECTORY)
    if os.fstat(base).st_uid != os.geteuid():
        sys.stderr.write(f"{base_dir} belongs to another user: nothing is done\n")
        return 1
    with suppress(FileExistsError):
        os.mkdir(RESULTS, 0o700, dir_fd=base)
    requests, results = (os.open(name, _DIRECTORY, dir_fd=base) for name in (REQUESTS, RESULTS))
    for name in sorted(os.listdir(requests))[:REQUESTS_MAX]:
        judged = judge(name, _read(requests, name), _read(base, LIST))
        result = mounting.perform(judged, storage_dir) if isinstance(judged, Order) else judged
        sys.stderr.write(msgspec.json.encode(result).decode() + "\n")  # the unit's log
        if result.name:
            _write(results, f"{result.name}.json", result)
        _remove(requests, name)
    return 0


def _read(folder: int, name: str) -> bytes:
    """b"" if it is not a plain file of at most FILE_BYTES_MAX bytes."""
    try:
        handle = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return b""
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > FILE_BYTES_MAX:
            return b""
        return os.read(handle, FILE_BYTES_MAX)
    finally:
        os.close(handle)


def _write(folder: int, name: str, result: Result) -> None:
    temporary = f".{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)
    handle = os.open(temporary, _CREATE, 0o600, dir_fd=folder)
    try:
        os.write(handle, msgspec.json.encode(result))
        os.fsync(handle)
    finally:
        os.close(handle)
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        os.rmdir(name, dir_fd=folder)


def command() -> None:
    """The program of the unit."""
    if len(sys.argv) != 3:
        sys.exit("usage: holdfast-mounts DIRECTORY STORAGE")
    sys.exit(main(sys.argv[1], sys.argv[2]))


if __name__ == "__main__":
    command()
