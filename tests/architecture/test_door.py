"""One door: whatever mounts, starts, stops, removes or runs takes a decision of the gate; every act has its place."""

import ast
import re
from pathlib import Path

import pytest

from holdfast.gate.acts import ACT_OF, Act
from holdfast.gate.callers import ASKED, JUDGED, NOT_BUILT
from holdfast.model.order import ACTIONS
from holdfast.ports import runtime, storage

SRC = Path(__file__).parents[2] / "src" / "holdfast"
PROOFS = {"Allowed", "Discardable", "Restorable", "Disposable", "VerifiedOrder"}
STREAMS = {"logs", "exec"}  # orders that open a stream: the gate is asked for them too

# What a port can do to the world without a decision, and why nothing is mounted, started, stopped, removed, written
# over or deleted by it.
FREE = {
    "runtime": {
        "version": "reads",
        "containers": "reads",
        "container": "reads",
        "users": "reads",
        "is_alive": "reads",
        "has_image": "reads",
        "image_volumes": "reads",
        "pull": "adds an image, which no container uses yet",
        "ensure_network": "adds a network, or leaves the one that is there",
        "logs": "reads",
        "changed": "waits",
        "close": "ends this client",
    },
    "storage": {
        "directories": "reads",
        "directory": "reads",
        "create": "adds an empty directory, or leaves the one that is there",
        "content": "reads",
        "passport": "reads",
        "keep_passport": "writes what the agent knows about a volume; no data",
        "remove_empty": "the kernel refuses a directory that is not empty",
        "need": "reads",
        "copy_ahead": "adds a copy, which is no checkpoint yet",
        "drop_ahead": "deletes the storage's own half copy, which never was a checkpoint",
        "checkpoint": "adds a copy",
        "checkpoints": "reads",
        "set_aside_by": "reads",
    },
}
ADAPTERS = {
    "Podman": "adapters/runtime/podman/runtime.py",
    "MemoryRuntime": "adapters/runtime/memory.py",
    "DirectoryStorage": "adapters/storage/directory.py",
    "MemoryStorage": "adapters/storage/memory.py",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def methods(path: str, name: str) -> dict[str, Function]:
    tree = ast.parse((SRC / path).read_text())
    (found,) = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    return {one.name: one for one in found.body if isinstance(one, Function) and not one.name.startswith("_")}


def verbs(path: str) -> dict[str, Function]:
    """Of all Protocols of a port."""
    classes = [node for node in ast.walk(ast.parse((SRC / path).read_text())) if isinstance(node, ast.ClassDef)]
    ports = [one for one in classes if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in one.bases)]
    return {one.name: one for port in ports for one in port.body if isinstance(one, Function)}


def proofs(function: Function) -> set[str]:
    given = [*function.args.args, *function.args.kwonlyargs]
    return {one.annotation.id for one in given if isinstance(one.annotation, ast.Name)} & PROOFS


@pytest.mark.parametrize("port", FREE)
def test_a_verb_that_touches_containers_or_data_takes_a_decision_x01_x02(port: str) -> None:
    found = verbs(f"ports/{port}.py")
    assert len(found) > 15
    assert [verb for verb, one in found.items() if not proofs(one) and verb not in FREE[port]] == []
    assert [verb for verb in FREE[port] if verb in found and proofs(found[verb])] == [], "it is not free"


def checks_first(function: Function) -> bool:
    body = [one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    first = body[0]
    return (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Call)
        and isinstance(first.value.func, ast.Name)
        and first.value.func.id == "check"
        and isinstance(first.value.args[0], ast.Name)
        and first.value.args[0].id == "allowed"
    )


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_checks_first_that_the_decision_fits(name: str) -> None:
    """A permission to start does not remove, and one for this container does not stop another."""
    taking = {verb: one for verb, one in methods(ADAPTERS[name], name).items() if "Allowed" in proofs(one)}
    assert len(taking) >= 3
    assert [verb for verb, function in taking.items() if not checks_first(function)] == []


def test_the_rule_about_checks_bites() -> None:
    weak = ast.parse("def start(self, id, allowed: Allowed):\n    self.begin(id)\n    check(allowed, STARTS, id)\n")
    assert not checks_first(weak.body[0])  # type: ignore[arg-type]


def test_the_acts_that_permit_a_verb_are_acts_of_the_gate() -> None:
    tables = [getattr(port, name) for port in (runtime, storage) for name in vars(port) if name.isupper()]
    named = {act for table in tables if isinstance(table, frozenset) for act in table}
    assert {"CREATE", "RETIRE", "MOUNT"} <= named <= {act.name for act in Act}


# ---- every act has a caller or a mark


def acts_named(path: str) -> set[Act]:
    tree = ast.parse((SRC / path).read_text())
    return {
        Act[node.attr]
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Act"
        if node.attr in Act.__members__
    }


def texts(path: str) -> str:
    tree = ast.parse((SRC / path).read_text())
    found = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return "\n".join(found)


def test_every_act_is_asked_judged_or_not_built() -> None:
    """Of the acts that the hostile trial met, 23 of 41 had no caller."""
    assert [act for act in Act if sum(act in table for table in (ASKED, JUDGED, NOT_BUILT)) != 1] == []


ORDERED = {ACT_OF[name] for name, rule in ACTIONS.items() if rule.built or name in STREAMS}


@pytest.mark.parametrize("act", ASKED, ids=lambda act: act.name)
def test_an_act_that_is_asked_has_its_caller(act: Act) -> None:
    module = ASKED[act]
    if module == "agent/orders/order_gate.py":
        assert act in ORDERED and "ACT_OF[" in (SRC / module).read_text()
    else:
        assert act in acts_named(module)


@pytest.mark.parametrize("act", JUDGED, ids=lambda act: act.name)
def test_an_act_that_is_judged_with_the_revision_has_its_demand(act: Act) -> None:
    assert JUDGED[act].words in texts(JUDGED[act].module)


def test_an_act_that_is_not_built_is_asked_by_nothing() -> None:
    asking = {
        act: str(path.relative_to(SRC))
        for path in sorted(SRC.rglob("*.py"))
        if path.parent.name != "gate" or path.name in ("copies.py", "mounts.py", "containers.py")
        for act in acts_named(str(path.relative_to(SRC)))
    }
    assert {act.name: module for act, module in asking.items() if act in NOT_BUILT} == {}
    assert {act.name for act in ORDERED & NOT_BUILT.keys()} == set()


# ---- the page about security


def protected() -> list[str]:
    page = (SRC.parents[1] / "docs" / "security.md").read_text()
    part = page.partition("## What is protected")[2].partition("\n## ")[0]
    return part.split("\n- ")[1:]


def test_each_line_about_what_is_protected_names_a_test_that_exists() -> None:
    lines = protected()
    assert len(lines) > 25
    tests = SRC.parents[1] / "tests"
    functions = "\n".join(path.read_text() for path in sorted(tests.rglob("test_*.py")))
    for line in lines:
        files = re.findall(r"`(tests/[\w/]+\.py)`", line)
        named = re.findall(r"`(test_\w+)`", line)
        assert files or named, f"no test is named: {line[:80]}"
        assert [name for name in files if not (SRC.parents[1] / name).exists()] == []
        assert [name for name in named if f"def {name}(" not in functions] == []


def test_each_line_about_an_act_names_a_test_that_exists() -> None:
    page = (SRC.parents[1] / "docs" / "reference" / "gate.md").read_text()
    rows = [line for line in page.partition("## Where each act")[2].splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(Act)
    for row in rows:
        (named,) = re.findall(r"`(tests/[\w/]+\.py)` \|$", row)
        assert (SRC.parents[1] / named).exists(), row
