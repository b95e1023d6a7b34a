"""A disk in memory, for tests and simulations. Refuses what a real disk refuses; its space can be limited."""

import os
from collections.abc import Mapping

from holdfast.errors import Failed, Invalid


class MemoryDisk:
    """`space_bytes` bounds the sum of all files; raise it to free space (R05)."""

    def __init__(self, files: Mapping[str, bytes] | None = None, space_bytes: int | None = None) -> None:
        self.space_bytes = space_bytes
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        for path, content in (files or {}).items():
            self.make_directory(os.path.dirname(path) or ".")
            self.replace(path, content)

    def read(self, path: str, at_most: int) -> bytes | None:
        place = _place(path)
        if self._is_directory(place):
            raise _not_a_file(path)
        content = self.files.get(place)
        if content is not None and len(content) > at_most:
            raise Invalid(
                f"{path} is longer than the allowed {at_most:,} bytes",
                remedy="check that this is the right file",
                code="file_too_long",
            )
        return content

    def replace(self, path: str, content: bytes, mode: int = 0o600) -> None:
        place = _place(path)
        if self._is_directory(place):
            raise _not_a_file(path)
        if not self._is_directory(os.path.dirname(place)):
            raise Failed(
                f"cannot write {path}: its directory does not exist",
                remedy="create the directory first, or check the path",
                code="disk_failed",
            )
        # Old and new content exist together for a moment, as on a real disk.
        if self.space_bytes is not None and sum(map(len, self.files.values())) + len(content) > self.space_bytes:
            raise Failed(
                f"no space is left for {path}; its old content is unchanged", remedy="free space", code="no_space"
            )
        self.files[place] = bytes(content)
        self.modes[place] = mode

    def remove(self, path: str) -> None:
        place = _place(path)
        if self._is_directory(place):
            raise _not_a_file(path)
        self.files.pop(place, None)
        self.modes.pop(place, None)

    def make_directory(self, path: str, mode: int = 0o700) -> None:
        place = _place(path.rstrip("/") or "/")
        while not self._is_directory(place):
            if place in self.files:
                raise Failed(f"cannot create {path}: {place} is a file", remedy="check the path", code="disk_failed")
            self.modes[place] = mode
            place = os.path.dirname(place)

    def make_tree(self, path: str, files: Mapping[str, bytes], mode: int = 0o700, file_mode: int = 0o600) -> None:
        place = _place(path)
        before = dict(self.files), dict(self.modes)
        if place in self.files or any(one.startswith(place + "/") for one in self.modes):
            raise Failed(f"cannot write {path}: it is not empty", remedy="check the path", code="disk_failed")
        try:
            self.make_directory(path, mode)
            for file, content in files.items():
                target = os.path.join(path, file)
                self.make_directory(os.path.dirname(target), mode)
                self.replace(target, content, file_mode)
        except BaseException:
            self.files, self.modes = before
            raise

    def _is_directory(self, place: str) -> bool:
        return place in ("", "/", ".") or (place in self.modes and place not in self.files)


def _place(path: str) -> str:
    if not path or "\0" in path or (path.endswith("/") and path != "/"):
        raise Invalid(f"{path!r} is not a file path", remedy="check the path")
    return os.path.normpath(path)


def _not_a_file(path: str) -> Invalid:
    return Invalid(f"{path} is not a regular file", remedy="give the path of a regular file", code="not_a_file")
