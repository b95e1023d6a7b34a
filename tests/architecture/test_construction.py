"""Objects of agent and hub are complete when they are built: no other object sets their attributes afterwards."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "holdfast"

# Plain mutable records, by room and by the variable that holds one: their fields are their interface.
RECORDS = {
    "agent": {
        "patient",  # Probed: one container that is probed
        "reading",  # Reading: the log of one container
        "note",  # _Note: what happened with one certificate name
    },
    "hub": {
        "member",  # Member: what the hub knows of one node
        "hit",  # a Member whose key was revoked
        "member.audit",  # AuditCopy: the hub's copy of one node's audit log
        "audit",  # the same
        "answered",  # Answered: what one node was answered last
        "line",  # Line: one alert target and its queue
        "slot",  # Slot: one connection
        "waiting",  # Waiting: one order in the queue
        "request",  # Request: one request while it is admitted
    },
    "wiring": set(),
}


def assigned(source: str) -> list[tuple[int, str]]:
    """Line and object of every assignment to an attribute of something else than `self`."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "object.__setattr__") and node.args:
            found += _foreign(ast.Attribute(node.args[0], "?", ast.Store()), node.lineno)
        for target in targets:
            found += _foreign(target, node.lineno)  # type: ignore[attr-defined]
    return sorted(found)


def _foreign(target: ast.expr, line: int) -> list[tuple[int, str]]:
    if isinstance(target, ast.Tuple | ast.List):
        return [one for part in target.elts for one in _foreign(part, line)]
    if isinstance(target, ast.Starred):
        return _foreign(target.value, line)
    if not isinstance(target, ast.Attribute):
        return []
    owner = ast.unparse(target.value)
    return [] if owner == "self" else [(line, owner)]


def complaints(room: str) -> list[tuple[str, str]]:
    files = sorted((SRC / room).rglob("*.py"))
    found = ((path, line, owner) for path in files for line, owner in assigned(path.read_text()))
    return [(owner, f"{path.relative_to(SRC)}:{line} sets an attribute of {owner}") for path, line, owner in found]


@pytest.mark.parametrize("room", sorted(RECORDS))
def test_no_attribute_is_set_from_outside(room: str) -> None:
    assert [text for owner, text in complaints(room) if owner not in RECORDS[room]] == []


@pytest.mark.parametrize("room", sorted(RECORDS))
def test_the_listed_records_are_all_in_use(room: str) -> None:
    assert {owner for owner, _ in complaints(room)} == RECORDS[room]


def test_the_rule_itself_bites() -> None:
    source = "self.a = 1\nself.b.c = 2\nother.d: int = 3\nx, (y.e, *z.f) = 1, 2\nsetattr(q, 'g', 1)\ndel w.h\nn.i += 1"
    assert sorted(assigned(source)) == [(2, "self.b"), (3, "other"), (4, "y"), (4, "z"), (5, "q"), (6, "w"), (7, "n")]
