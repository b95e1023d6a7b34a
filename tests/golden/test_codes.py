"""Codes are what they were: of errors with their exit codes and HTTP statuses, of findings, of alerts.

Families of errors are named by their exit code, the status they get, and the code they have by themselves: classes and
modules may be renamed, these may not.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast import errors
from holdfast.hub.watchers import fleet_findings, standby
from holdfast.ledger import boot_findings
from holdfast.model import alert_codes
from holdfast.model.hub_status import StatusFinding
from holdfast.status.edges import findings as edge_findings
from holdfast.status.services import findings as service_findings
from holdfast.wire import faults
from tests.golden import stored
from tests.golden.sources import modules, trees

FAMILIES: dict[str, type[errors.HoldfastError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.HoldfastError)
}
CODE = "code"


def label(family: type[errors.HoldfastError]) -> str:
    return f"exit {family.exit_code}, HTTP {faults.status(family('text', remedy='text'), writing=False)}, {family.code}"


# ---- a scan of the source


class Module:
    """What one file says about codes. Names of the file and of its functions stay in here."""

    def __init__(self, tree: ast.Module, known: dict[str, str]) -> None:
        self.tree = tree
        self.known = known  # class → the family it comes from
        self.constants = dict(_constants(tree))
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

    def codes(self) -> Iterator[tuple[str, str]]:
        """(code, family), "" where the family is known only at run time."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield from self._of_call(node)
            elif isinstance(node, ast.ClassDef) and node.name in self.known:
                for code in self._of_class(node):
                    yield code, self.known[node.name]

    def _of_call(self, call: ast.Call) -> Iterator[tuple[str, str]]:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = [word.value for word in call.keywords if word.arg == CODE]
        maker = self.functions.get(name)
        if maker is not None:
            given += self._of_parameter(maker, call)
        families = [self.known[name]] if name in self.known else self._made_by(maker)
        if name in self.known or maker is not None or "remedy" in {word.arg for word in call.keywords}:
            for value in given:
                for code in self._texts(value):
                    yield from ((code, family) for family in families or [""])

    def _of_parameter(self, maker: ast.FunctionDef, call: ast.Call) -> list[ast.expr]:
        """What is given for the parameter `code` of a function of this file, and what it is when nothing is given."""
        plain = [argument.arg for argument in maker.args.args if argument.arg != "self"]
        found: list[ast.expr] = []
        if CODE in plain and len(call.args) > plain.index(CODE):
            found.append(call.args[plain.index(CODE)])
        names = [argument.arg for argument in maker.args.args]
        defaults = dict(zip(reversed(names), reversed(maker.args.defaults), strict=False))
        return [*found, defaults[CODE]] if CODE in defaults else found

    def _made_by(self, maker: ast.FunctionDef | None) -> list[str]:
        if maker is None:
            return []
        calls = (node.func for node in ast.walk(maker) if isinstance(node, ast.Call))
        return sorted({self.known[func.id] for func in calls if isinstance(func, ast.Name) and func.id in self.known})

    def _of_class(self, node: ast.ClassDef) -> Iterator[str]:
        for inner in node.body:
            if isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]) == CODE:
                yield from self._texts(inner.value)
        for call in (inner for inner in ast.walk(node) if isinstance(inner, ast.Call)):
            if ast.unparse(call.func) == "super().__init__":
                for word in call.keywords:
                    if word.arg == CODE:
                        yield from self._texts(word.value)

    def _texts(self, node: ast.expr) -> Iterator[str]:
        match node:
            case ast.Constant(value=str(text)) if text:
                yield text
            case ast.Name(id=name) if name in self.constants:
                yield self.constants[name]
            case ast.IfExp(body=one, orelse=other):
                yield from self._texts(one)
                yield from self._texts(other)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self._texts(value)


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Words that are constants of this file: `A = "one"` and `A, B = "one", "two"`."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in zip(_parts(target), _parts(node.value), strict=False):
                    if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                        yield name.id, value.value


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def families(parsed: Sequence[ast.Module]) -> dict[str, str]:
    """Every class of an error, also those outside of errors.py → its family."""
    bases = {
        node.name: [getattr(base, "id", "") for base in node.bases]
        for tree in parsed
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {name: label(kind) for name, kind in FAMILIES.items()}
    for _ in range(3):  # a subclass of a subclass
        for name, parents in bases.items():
            known = next((found[parent] for parent in parents if parent in found), "")
            if known and name not in FAMILIES:
                found[name] = known
    return found


def imported(tree: ast.Module) -> dict[str, str]:
    """Constants that this file imports from others of the product."""
    found: dict[str, str] = {}
    for node in tree.body:
        source = modules().get(node.module or "") if isinstance(node, ast.ImportFrom) else None
        if source is not None and isinstance(node, ast.ImportFrom):
            constants = dict(_constants(source))
            found |= {a.asname or a.name: constants[a.name] for a in node.names if a.name in constants}
    return found


def test_every_code_of_an_error_with_its_family() -> None:
    parsed = trees()
    known = families(parsed)
    found: dict[str, set[str]] = {}
    for tree in parsed:
        module = Module(tree, known)
        module.constants = imported(tree) | module.constants
        for code, family in module.codes():
            found.setdefault(code, set()).update({family} - {""})
    for kind in FAMILIES.values():
        found.setdefault(kind.code, set()).add(label(kind))
    assert len(found) > 150, "the scan still finds the calls that make errors"
    stored.check("codes/errors.json", stored.pretty({code: sorted(found[code]) for code in sorted(found)}))


def test_families_and_statuses() -> None:
    rows: dict[str, Any] = {
        "families": sorted({label(kind) for kind in FAMILIES.values()}),
        "status of a code": dict(sorted(faults.STATUS_OF_CODE.items())),
        "codes about bytes that were sent": sorted(faults.SENT_BYTES),
        "family of an exit code": {str(code): label(kind) for code, kind in sorted(faults.FAMILY_OF_EXIT.items())},
        "family of a status": {str(code): label(kind) for code, kind in sorted(faults.FAMILY_OF_STATUS.items())},
        "status while writing": {
            label(kind): sorted({faults.status(kind("text", remedy="text", code=c), writing=True) for c in _CODES})
            for kind in FAMILIES.values()
        },
        "header": faults.EXIT_HEADER,
        "retry after": faults.RETRY_AFTER_S,
        "interrupted": errors.INTERRUPTED,
    }
    stored.check("codes/families.json", stored.pretty(rows))


_CODES = ("other", "unreadable", "not_found")


# ---- findings and alerts


def agent_findings(parsed: Sequence[ast.Module]) -> set[str]:
    """First arguments of `….findings.add(…)` and `….findings.add_trouble(…)`."""
    found: set[str] = set()
    for tree in parsed:
        own = imported(tree) | dict(_constants(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
                about = ast.unparse(node.func.value)
                if node.func.attr in ("add", "add_trouble") and about.endswith("findings"):
                    word = node.args[0]
                    found.add(str(word.value) if isinstance(word, ast.Constant) else own.get(ast.unparse(word), ""))
    return found - {""}


def lone_findings(found: Sequence[ast.Module]) -> Iterator[tuple[str, str]]:
    """Code and level of findings of hub and command line that are written where they are made."""
    for node in (node for tree in found for node in ast.walk(tree)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == StatusFinding.__name__:
            code, level = node.args[:2]
            if isinstance(code, ast.Constant) and isinstance(level, ast.Constant):
                yield str(code.value), str(level.value)


def test_codes_of_findings() -> None:
    of_agent = sorted(agent_findings(trees()))
    assert len(of_agent) > 15, "the scan still finds the calls that add findings"
    tables = {
        "of the ledger": {code: level for code, (level, _) in sorted(boot_findings.ROWS.items())},
        "of nodes, by the hub": {
            code: level for code, (level, _) in sorted({**fleet_findings.ROWS, **standby.ROWS}.items())
        },
        "of services, by the hub": sorted(service_findings.ROWS),
        "of public hostnames, by the hub": sorted(edge_findings.ROWS),
        "of an agent": of_agent,
        "of no table": dict(sorted(lone_findings(trees()))),
    }
    stored.check("codes/findings.json", stored.pretty(tables))


def test_codes_of_alerts() -> None:
    rows = {code: {"ends": ended or None} for code, ended in sorted(alert_codes.RECOVERY_OF.items())}
    stored.check("codes/alerts.json", stored.pretty(rows))
