"""A fleet directory in a dictionary, for files that are on no disk yet. Refuses what the POSIX one refuses."""

from collections.abc import Mapping

from holdfast.ports.fleet_directory import (
    ENTRIES_MAX,
    Entry,
    Kind,
    Unreadable,
    absent,
    overflowing,
    refused,
    too_large,
)

Content = bytes | Kind | OSError
"""The bytes of a file, or the kind of entry in its place, or the error that reading it raises."""


class MemoryFleetDirectory:
    def __init__(self, files: Mapping[str, Content], name: str = "fleet") -> None:
        self.name = name
        self._files = dict(files)

    def entries(self, directory: str = "") -> tuple[Entry, ...]:
        prefix = directory and directory + "/"
        if directory and not self._is_directory(directory):
            raise self._not_a_directory(directory)
        inside = [path for path in self._files if path.startswith(prefix) and path != directory]
        found = {self._entry(prefix + path[len(prefix) :].partition("/")[0]) for path in inside}
        if len(found) > ENTRIES_MAX:
            raise overflowing(directory)
        return tuple(sorted(found))

    def read(self, path: str, bytes_max: int) -> bytes:
        if not {"", ".", ".."}.isdisjoint(path.split("/")) or "\0" in path:
            raise Unreadable(path, "is not a path inside the fleet directory", remedy="remove the . and .. parts")
        content = self._files.get(path, "directory" if self._is_directory(path) else None)
        if content is None:
            raise absent(path)
        if isinstance(content, OSError):
            raise Unreadable(path, f"cannot be read: {content.strerror}", remedy="check the disk")
        if not isinstance(content, bytes):
            raise refused(path, content)
        if len(content) > bytes_max:
            raise too_large(path, len(content), bytes_max)
        return content

    def _is_directory(self, path: str) -> bool:
        return self._files.get(path) == "directory" or any(other.startswith(path + "/") for other in self._files)

    def _entry(self, path: str) -> Entry:
        content = self._files.get(path, "directory")
        if isinstance(content, bytes):
            return Entry(path, "file", len(content))
        return Entry(path, "file" if isinstance(content, OSError) else content)

    def _not_a_directory(self, path: str) -> Unreadable:
        if path not in self._files:
            return absent(path)
        return Unreadable(
            path,
            "is not a directory, or is a symbolic link to one; symbolic links are not followed",
            remedy="replace it with a real directory",
        )
