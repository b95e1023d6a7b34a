"""Imports point down, rooms on one floor do not know each other, and only wiring knows products (layout.md)."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "holdfast"
# `status` is above the other pure rooms because it compares their values: verified reports, DNS records, public routes.
FLOORS = (
    {"errors"},
    {"model"},
    {"ports"},
    {"planning", "reconcile", "ledger", "trust", "wire", "gate"},
    {"adapters", "declared", "status"},
    {"hub", "agent", "mounts"},
    {"cli", "web", "lab"},
    {"wiring"},
    {"__main__"},
)
FLOOR_OF = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
VERSION = "holdfast"  # `from holdfast import __version__` belongs to no room


def imports(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute"
            names = [alias.name for alias in node.names]
            whole_room = node.module == VERSION
            found += [f"{VERSION}.{name}" for name in names if name != "__version__"] if whole_room else [node.module]
    return [name for name in found if name.split(".")[0] == VERSION and name != VERSION]


def room_of(path: Path) -> str:
    relative = path.relative_to(SRC)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def complaint(room: str, imported: str) -> str | None:
    other = imported.split(".")[1]
    if other == room:
        return None
    if other == "adapters" and room != "wiring":
        return f"{room} imports {imported}: only wiring knows products"
    if FLOOR_OF[other] >= FLOOR_OF[room]:
        return f"{room} imports {imported}, which is not on a lower floor"
    return None


FILES = [path for path in sorted(SRC.rglob("*.py")) if path.name != "__init__.py" or path.parent != SRC]


def test_every_import_points_to_a_lower_floor() -> None:
    complaints = [
        f"{path.relative_to(SRC)}: {problem}"
        for path in FILES
        for name in imports(ast.parse(path.read_text()))
        if (problem := complaint(room_of(path), name)) is not None
    ]
    assert complaints == []


# Commands that run a hub or an agent, work on their files, or check the chain of revisions as a hub does. Every other
# command takes its rules from the pure rooms.
KNOW_A_DAEMON = {
    "cli/agent/agent_check.py",
    "cli/agent/agent_home.py",
    "cli/agent/agent_join.py",
    "cli/agent/agent_run.py",
    "cli/agent/agent_state.py",
    "cli/hub/hub_backup.py",
    "cli/hub/hub_check.py",
    "cli/hub/hub_init.py",
    "cli/hub/hub_run.py",
    "cli/hub/hub_restore.py",
    "cli/hub/restore_signature.py",
    "cli/hub/import_backups.py",  # fills the store of a hub, which keeps room for its ledger
    "cli/hub/import_ledger.py",  # builds the ledger of a hub
    "cli/fleet/seen_heads.py",  # the chain check
}


def knows_a_daemon(source: str) -> bool:
    return any(name.split(".")[1] in {"hub", "agent"} for name in imports(ast.parse(source)))


def test_only_commands_of_the_daemons_and_the_chain_check_import_hub_or_agent() -> None:
    found = {
        str(path.relative_to(SRC)) for path in FILES if room_of(path) == "cli" and knows_a_daemon(path.read_text())
    }
    assert found == KNOW_A_DAEMON
    assert not knows_a_daemon("from holdfast.status import dns") and knows_a_daemon("from holdfast.hub import fleet")


@pytest.mark.parametrize(
    ("room", "imported"),
    [
        ("model", "holdfast.ports.clock"),
        ("hub", "holdfast.adapters.disk.posix"),
        ("planning", "holdfast.trust.chain"),
        ("status", "holdfast.hub.fleet"),
        ("trust", "holdfast.status.dns"),
    ],
)
def test_the_rule_itself_bites(room: str, imported: str) -> None:
    assert complaint(room, imported) is not None


def test_every_room_says_what_it_is() -> None:
    """A room's __init__ has a docstring and nothing else."""
    for init in SRC.rglob("__init__.py"):
        body = ast.parse(init.read_text()).body
        assert body and isinstance(body[0], ast.Expr), f"{init} has no docstring"
        if init.parent != SRC:
            assert len(body) == 1, f"{init} does more than say what the room is"


def test_every_module_opens_with_one_sentence() -> None:
    silent = [str(path.relative_to(SRC)) for path in FILES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


PURE = {"errors", "model", "ports", "planning", "reconcile", "status", "ledger", "trust", "wire", "gate"}
# Clock, randomness, network, disk, processes and threads come in through ports.
WORLD = {
    *("time", "datetime", "sched", "calendar"),
    *("random", "secrets", "uuid"),
    *("socket", "ssl", "select", "selectors", "http", "urllib", "asyncio"),
    *("os", "io", "pathlib", "tempfile", "shutil", "glob", "fcntl", "mmap", "sqlite3"),
    *("subprocess", "multiprocessing", "signal", "threading", "concurrent", "queue", "_thread"),
}
# A port may name the type of a result that comes later; it starts no thread.
FUTURE = ("ports", "concurrent.futures.Future")


def world_imports(room: str, text: str) -> list[str]:
    if room not in PURE:
        return []
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
    return [name for name in names if name.split(".")[0] in WORLD and (room, name) != FUTURE]


def test_pure_rooms_touch_nothing() -> None:
    touched = [
        f"{path.relative_to(SRC)} imports {name}"
        for path in FILES
        for name in world_imports(room_of(path), path.read_text())
    ]
    assert touched == []


@pytest.mark.parametrize(
    ("room", "text"),
    [
        ("reconcile", "import time"),
        ("reconcile", "from datetime import datetime"),
        ("ports", "import socket"),
        ("ports", "from concurrent.futures import Future, ThreadPoolExecutor"),
        ("reconcile", "from concurrent.futures import Future"),
        ("status", "def f():\n    import random"),
        ("model", "import threading"),
        ("planning", "if TYPE_CHECKING:\n    import os.path"),
    ],
)
def test_the_rule_of_purity_bites(room: str, text: str) -> None:
    assert world_imports(room, text)


def test_the_command_line_verifies_no_pulse_itself() -> None:
    """trust/reports.py does, once a look; a second place would be a second opinion."""
    assert [path.name for path in FILES if room_of(path) == "cli" and "PULSE_NAMESPACE" in path.read_text()] == []


def test_no_rag_bag_modules() -> None:
    forbidden = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
    assert [path for path in FILES if path.stem in forbidden] == []


def test_proofs_have_one_maker() -> None:
    """`Approved` is made by trust/approval.py alone, `Preview` by hub/ledger/commit.py alone, and so on (style §6)."""
    makers = {
        "Approved": "trust/approval.py",
        "Preview": "hub/ledger/commit.py",
        "VerifiedOrder": "trust/orders.py",
        "VerifiedReport": "trust/reports.py",
        "Discardable": "gate/copies.py",
        "Restorable": "gate/copies.py",
        "Purgeable": "gate/copies.py",
        "Disposable": "gate/copies.py",
        "Returnable": "gate/copies.py",
        "Prunable": "gate/copies.py",
        "Drillable": "gate/copies.py",
        "Clearable": "gate/copies.py",
        "Allowed": "gate/decide.py",
        "ProvenAddress": "agent/acceptance/vouching.py",
        "Servable": "trust/servable.py",
    }
    found = {
        (name, str(path.relative_to(SRC)))
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _made(node) & makers.keys()
    }
    assert found == set(makers.items())


def _made(node: ast.AST) -> set[str]:
    """Names of what a call may make: the class that is called, also of a module, and one that is decoded into."""
    if not isinstance(node, ast.Call) or _name(node.func) == "isinstance":
        return set()
    return {_name(one) for one in (node.func, *node.args, *(keyword.value for keyword in node.keywords))}


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
