"""Collect mistakes: first by key path, then with their lines. Bounded."""

from collections.abc import Mapping

from msgspec import Struct

from holdfast.declared.problem import Problem, Problems
from holdfast.declared.words import Path, key_path

KEPT_MAX = 10_000  # beyond this, mistakes are only counted
EXPLAINED_MAX = 1_000  # beyond this, no line is looked up and no spelling is guessed


class Flaw(Struct, frozen=True):
    file: str
    path: Path
    what: str
    remedy: str = ""
    line: int = 0


class Flaws:
    """`dropped` has where list elements were left out, so that later checks still name the right one."""

    def __init__(self) -> None:
        self.kept: list[Flaw] = []
        self.uncounted = 0
        self.dropped: dict[tuple[str, Path], list[int]] = {}

    def __bool__(self) -> bool:
        return bool(self.kept)

    @property
    def crowded(self) -> bool:
        return len(self.kept) >= EXPLAINED_MAX

    def add(self, file: str, path: Path, what: str, remedy: str = "", line: int = 0) -> None:
        """Note a mistake at a path of the file as written."""
        if len(self.kept) < KEPT_MAX:
            self.kept.append(Flaw(file, path, what, remedy, line))
        else:
            self.uncounted += 1

    def add_checked(self, file: str, path: Path, what: str, remedy: str = "") -> None:
        """Note a mistake at a path of the value that passed the struct check."""
        self.add(file, self._as_written(file, path), what, remedy)

    def _as_written(self, file: str, path: Path) -> Path:
        written: Path = ()
        for part in path:
            indices = self.dropped.get((file, written))
            written += (indices[part] if indices and isinstance(part, int) else part,)
        return written

    def touch(self, file: str, path: Path) -> bool:
        """Whether something at or below this path of the checked value was already found wrong."""
        written = self._as_written(file, path)
        return any(flaw.file == file and flaw.path[: len(written)] == written for flaw in self.kept)

    def problems(self, sources: Mapping[str, bytes]) -> Problems:
        by_file: dict[str, list[Flaw]] = {}
        for flaw in self.kept:
            by_file.setdefault(flaw.file, []).append(flaw)
        found: list[Problem] = []
        for file in sorted(by_file):
            content = sources.get(file, b"") if len(found) < EXPLAINED_MAX else b""
            found += _located(by_file[file], content)
        return Problems(found, self.uncounted)


def _located(flaws: list[Flaw], content: bytes) -> list[Problem]:
    lines: Mapping[Path, int] = {}
    if content and any(flaw.path and not flaw.line for flaw in flaws):
        from holdfast.declared import places

        lines = places.index(content.decode("utf-8", "replace"))
    return [
        Problem(flaw.file, flaw.line or _line(lines, flaw.path), key_path(flaw.path), flaw.what, flaw.remedy)
        for flaw in flaws
    ]


def _line(lines: Mapping[Path, int], path: Path) -> int:
    """The line of the key, else of the table it should be in, else of the beginning of the file."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1) if lines else 0
