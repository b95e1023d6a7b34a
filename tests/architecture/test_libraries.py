"""Each room's libraries are listed: a library that a room does not have here is not imported there."""

import ast
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.architecture.test_floors import FILES, SRC, room_of

OWN = {"holdfast", "__future__"}

# Room → libraries from outside of Python. msgspec is the form of every value.
ALLOWED: Mapping[str, frozenset[str]] = {
    "errors": frozenset(),
    "model": frozenset({"msgspec"}),
    "ports": frozenset({"msgspec"}),
    "planning": frozenset({"msgspec"}),
    "reconcile": frozenset({"msgspec"}),
    "status": frozenset({"msgspec"}),
    "ledger": frozenset({"msgspec"}),
    "gate": frozenset({"msgspec"}),
    "trust": frozenset({"msgspec", "cryptography"}),
    "wire": frozenset({"msgspec", "cryptography"}),
    "declared": frozenset({"cronsim", "msgspec", "tomli"}),
    "hub": frozenset({"msgspec"}),
    "agent": frozenset({"msgspec"}),
    "mounts": frozenset({"msgspec"}),
    "cli": frozenset({"msgspec", "tomli"}),
    "lab": frozenset({"msgspec", "dns"}),
    "wiring": frozenset({"msgspec"}),
    "__main__": frozenset(),
    "adapters": frozenset(
        {
            "acme",
            "aiohttp",
            "apprise",
            "apsw",
            "cronsim",
            "cryptography",
            "dns",
            "josepy",
            "msgspec",
            "obstore",
            "psycopg",
            "pyrage",
            "requests",
            "uvloop",
            "yarl",
            "zstandard",
        }
    ),
}


def libraries(text: str) -> set[str]:
    """Top names of what a module imports from outside of Python and of Holdfast, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found - OWN - set(sys.stdlib_module_names)


def foreign(path: Path, text: str) -> list[str]:
    room = room_of(path)
    return [f"{path.relative_to(SRC)} imports {name}" for name in sorted(libraries(text) - ALLOWED[room])]


def test_no_room_imports_a_library_that_is_not_listed_for_it() -> None:
    assert [problem for path in FILES for problem in foreign(path, path.read_text())] == []


def test_every_listed_library_is_used() -> None:
    used: dict[str, set[str]] = {}
    for path in FILES:
        used.setdefault(room_of(path), set()).update(libraries(path.read_text()))
    assert {room: sorted(ALLOWED[room] - used[room]) for room in used if ALLOWED[room] - used[room]} == {}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("hub/http/x.py", "from aiohttp import web"),
        ("agent/x.py", "def f():\n    import uvloop"),
        ("wiring/x.py", "import uvloop"),
        ("model/x.py", "if TYPE_CHECKING:\n    from cryptography.hazmat import x"),
    ],
)
def test_the_rule_itself_bites(path: str, text: str) -> None:
    assert foreign(SRC / path, text)


def test_a_wait_with_a_limit_loses_no_cancellation() -> None:
    """`asyncio.wait_for` of Python 3.11 loses a cancellation that comes with the event it waits for: a task that is
    cancelled goes on, and its process does not end. `asyncio.timeout` does not."""
    found = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.wait_for"
    ]
    assert found == []


def test_no_cancellation_is_suppressed() -> None:
    """A task that waits for another one, which it has cancelled, cannot tell whether it is cancelled itself: it waits
    with `asyncio.wait`."""
    found = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "suppress" and "CancelledError" in ast.unparse(node)
    ]
    assert found == []
