"""Weakened copies of a module, made in memory: every check dropped, every half of a condition, every bound moved.

A suite that guards something must notice each of them; the product has no switch for it.
"""

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Protocol

SRC = Path(__file__).parents[2] / "src"

_MOVED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


def source_of(name: str) -> str:
    return (SRC / (name.replace(".", "/") + ".py")).read_text()


def module(name: str, tree: ast.Module) -> ModuleType:
    """Run as if it were the module; nothing in sys.modules changes."""
    made = ModuleType(name)
    exec(compile(ast.fix_missing_locations(tree), f"<weakened {name}>", "exec"), made.__dict__)
    return made


def mutants(name: str) -> Iterator[tuple[str, ast.Module]]:
    """Each with the line it differs in and how."""
    tree = ast.parse(source_of(name))
    for index, node in enumerate(ast.walk(tree)):
        for how, change in _changes(node):
            weakened = copy.deepcopy(tree)
            target = next(found for at, found in enumerate(ast.walk(weakened)) if at == index)
            change(weakened, target)
            yield f"{name.rpartition('.')[2]}.py:{getattr(node, 'lineno', 0)} {how}", weakened


def _changes(node: ast.AST) -> Iterator[tuple[str, "_Change"]]:
    if isinstance(node, ast.If):
        yield "condition never true", _Never()
    if isinstance(node, ast.BoolOp):
        for at in range(len(node.values)):
            yield f"without operand {at + 1}", _Without(at)
    if isinstance(node, ast.IfExp):
        yield "always the first", _Always(True)
        yield "always the second", _Always(False)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _MOVED:
        for at in range(len(node.ops)):
            yield f"bound {at + 1} moved by one", _Moved(at)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "call dropped", _Dropped()


class _Change(Protocol):
    def __call__(self, tree: ast.Module, node: ast.AST) -> None: ...


class _Never:
    def __call__(self, tree: ast.Module, node: ast.AST) -> None:
        assert isinstance(node, ast.If)
        # Names bound in the condition stay bound: only the answer changes.
        node.test = ast.BoolOp(ast.And(), [node.test, ast.Constant(False)])


class _Without:
    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, tree: ast.Module, node: ast.AST) -> None:
        assert isinstance(node, ast.BoolOp)
        node.values[self.at] = ast.Constant(isinstance(node.op, ast.And))


class _Always:
    def __init__(self, first: bool) -> None:
        self.first = first

    def __call__(self, tree: ast.Module, node: ast.AST) -> None:
        assert isinstance(node, ast.IfExp)
        node.test = ast.Constant(self.first)


class _Moved:
    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, tree: ast.Module, node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops[self.at] = _MOVED[type(node.ops[self.at])]()


class _Dropped:
    def __call__(self, tree: ast.Module, node: ast.AST) -> None:
        assert isinstance(node, ast.Expr)
        node.value = ast.Constant(None)
