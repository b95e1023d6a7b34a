"""A soak that can be resumed: the tests that passed are noted in a file."""

from __future__ import annotations

import subprocess
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import pytest


class Passed:
    """Names of tests below a first line that identifies the source. Another source has passed nothing."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root

    @cached_property
    def _source(self) -> str:
        """The commit, what differs from it, and files that are not in git yet."""
        new = self._git("ls-files", "-z", "--others", "--exclude-standard").decode().split("\0")
        contents = [(self._root / name).read_bytes() for name in new if (self._root / name).is_file()]
        return sha256(b"".join((self._git("rev-parse", "HEAD"), self._git("diff", "HEAD"), *contents))).hexdigest()

    def _git(self, *words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=self._root, capture_output=True, check=True).stdout

    def read(self) -> frozenset[str]:
        try:
            source, *names = self._path.read_text().splitlines()
        except (FileNotFoundError, ValueError):
            return frozenset()
        return frozenset(names) if source == self._source else frozenset()

    def add(self, name: str) -> None:
        if not self.read():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(self._source + "\n")
        with self._path.open("a") as file:
            file.write(name + "\n")


class ResumedSoak:
    """A plugin of pytest: leaves out what has passed, and notes what passes."""

    def __init__(self, passed: Passed) -> None:
        self._passed = passed
        self._called: set[str] = set()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        known = self._passed.read()
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in known])
        items[:] = [item for item in items if item.nodeid not in known]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has passed when its teardown has, too: the end of a lab is a part of the test."""
        if report.passed and report.when == "call":
            self._called.add(report.nodeid)
        if report.passed and report.when == "teardown" and report.nodeid in self._called:
            self._passed.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A soak that has nothing left to do has succeeded."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._passed.read():
            session.exitstatus = pytest.ExitCode.OK
