"""Every remedy that the source can print, and the commands in it.

A remedy is written so that a machine finds its commands and a person can paste them. It has clauses, parted by "; ".
A clause is a command, or words and ": " and a command, or words in which a command stands in backticks. Words in
capitals (FILE, NAME) are for the reader to fill in.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

from holdfast.cli.flags import repeated
from holdfast.cli.noun import LATER
from holdfast.cli.verbs import VERBS, nouns
from tests.golden.sources import modules

HOLE = "\N{REPLACEMENT CHARACTER}"  # in place of a value that is known only at run time
REMEDY = "remedy"
TEXTS_MAX = 64  # of one expression

PROGRAMS = frozenset(
    """
    age-keygen apt apt-get cat chmod chown cp curl df dig dnsmasq du echo eval git holdfast ip journalctl ln ls
    lsof mkdir mv namei nft pgrep pip podman ps rm rmdir sed ss ssh ssh-add ssh-keygen strace sudo sysctl systemctl
    timedatectl umount
    """.split()  # noqa: SIM905 (a list of words reads best as words)
)
IN_WORDS = PROGRAMS - {"age-keygen", "cat", "dnsmasq", "echo", "eval", "ip", "ps", "ssh"}
# ^ the others are also words of sentences
CALL = re.compile(rf"(?<![\w./@=-])({'|'.join(sorted(IN_WORDS, key=len, reverse=True))}) ([-a-z{HOLE}][-a-z]*)")
FIRST_WORDS = frozenset(name.partition(" ")[0] for name in VERBS) | LATER | nouns()


class Remedy(NamedTuple):
    place: str
    text: str


# ---- commands of a remedy


def commands(text: str) -> list[str]:
    return [found for clause in clauses(text) for found in _of_clause(clause)]


def clauses(text: str) -> list[str]:
    """Parts between "; ", where that is not inside quotes or backticks."""
    return [part.strip() for part in re.split(r"; (?=(?:[^`]*`[^`]*`)*[^`]*$)", text)]


def _of_clause(clause: str) -> Iterator[str]:
    yield from (found for found in re.findall(r"`([^`]+)`", clause) if is_command(found))
    bare = re.sub(r"`[^`]*`", "``", clause)
    if is_command(bare):
        yield bare
    elif is_command(last := bare.partition(": ")[2]):
        yield last


def is_command(text: str) -> bool:
    return text.split(" ", 1)[0] in PROGRAMS


def loose(text: str) -> list[str]:
    """Commands in the words of a remedy, where they cannot be told from the words."""
    found = []
    for clause in clauses(text):
        bare = re.sub(r"`[^`]*`", "``", clause)
        head, colon, last = bare.partition(": ")
        words = "" if is_command(bare) else head if colon and is_command(last) else bare
        found += [f"{one[1]} {one[2]}" for one in CALL.finditer(words) if one[1] != "holdfast" or _is_verb(one[2])]
    return found


def _is_verb(word: str) -> bool:
    return word in FIRST_WORDS or word.startswith("--")


def chain(command: str) -> list[str]:
    """The commands of one line: `first && second`, `first | second`."""
    return re.split(r" (?:&&|\|) ", command)


# ---- remedies of the source


@cache
def remedies() -> tuple[Remedy, ...]:
    found = {remedy: None for name, tree in modules().items() for remedy in _Module(name, tree).remedies()}
    return tuple(found)


@cache
def _takers() -> dict[str, frozenset[int]]:
    """Functions and classes of the product by name → positions of the parameter `remedy`, of all with that name."""
    found = {"Park": {2}}  # of the gate: the command that gives the signature
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                lists = [[one.target.id for one in node.body if _is_field(one)]]  # type: ignore[attr-defined]
                lists += [_parameters(one) for one in node.body if getattr(one, "name", "") == "__init__"]
            else:
                lists = [_parameters(node)]
            for names in lists:
                if REMEDY in names:
                    found.setdefault(node.name, set()).add(names.index(REMEDY))  # type: ignore[attr-defined]
    return {name: frozenset(positions) for name, positions in found.items()}


def _parameters(node: ast.AST) -> list[str]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    return [one.arg for one in node.args.args if one.arg not in ("self", "cls")]


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)


class _Module:
    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name, self.tree = name, tree
        self.values = dict(_assigned(tree.body))
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

    def remedies(self) -> Iterator[Remedy]:
        for scope in self._scopes(self.tree, ()):
            yield from scope

    def _scopes(self, node: ast.AST, inside: tuple[ast.FunctionDef, ...]) -> Iterator[list[Remedy]]:
        for child in ast.iter_child_nodes(node):
            deeper = (*inside, child) if isinstance(child, ast.FunctionDef) else inside
            for value in _given(child):
                place = f"{self.name.removeprefix('holdfast.')}:{value.lineno}"
                yield [Remedy(place, text) for text in self.texts(value, inside) if text.strip(HOLE + " ")]
            yield from self._scopes(child, deeper)

    def texts(self, node: ast.expr | None, inside: tuple[ast.FunctionDef, ...], depth: int = 0) -> list[str]:
        """What an expression can be; a part that is not known is a HOLE."""
        if depth > 8 or node is None:
            return [HOLE]

        def of(part: ast.expr | None) -> list[str]:
            return self.texts(part, inside, depth + 1)

        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=parts):
                return _joined([of(part) for part in parts])
            case ast.FormattedValue(value=value):
                return of(value)
            case ast.BinOp(left=one, op=ast.Add(), right=other):
                return _joined([of(one), of(other)])
            case ast.IfExp(body=one, orelse=other):
                return [*of(one), *of(other)]
            case ast.BoolOp(values=values):
                return [text for value in values for text in of(value)]
            case ast.Name(id=name):
                return self._named(name, inside, depth)
            case ast.Call(func=ast.Attribute(attr="format", value=base)):
                return [re.sub(r"\{\w*\}", HOLE, text) for text in of(base)]
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                return self._returned(name, depth)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if source := self._module(module):
                return source._returned(name, depth)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if source := self._module(module):
                return source._named(name, (), depth)
            case ast.Call(func=ast.Attribute(attr="get", value=ast.Name(id=name)), args=[_, *more]):
                return [*self._leaves(name), *(text for one in more for text in of(one))] or [HOLE]
            case ast.Subscript(value=ast.Name(id=name)):
                return self._leaves(name) or [HOLE]
            case ast.Subscript(value=ast.Subscript(value=ast.Name(id=name))):
                return self._leaves(name) or [HOLE]
            case ast.Tuple(elts=parts):  # of a table's row
                return [text for part in parts for text in of(part)]
        return [HOLE]

    def _named(self, name: str, inside: tuple[ast.FunctionDef, ...], depth: int) -> list[str]:
        for function in reversed(inside):
            given = [value for known, value in _assigned(ast.walk(function)) if known == name]
            if given:
                return [text for value in given for text in self.texts(value, inside, depth + 1)]
            if name in {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}:
                return [HOLE]
        if name in self.values:
            return self.texts(self.values[name], (), depth + 1)
        source = self._imported(name)
        return source.texts(source.values.get(name), (), depth + 1) if source is not None else [HOLE]

    def _returned(self, name: str, depth: int) -> list[str]:
        if name == repeated.__name__:  # flags that were given
            return [HOLE]
        source = self if name in self.functions else self._imported(name)
        function = source.functions.get(name) if source is not None else None
        if source is None or function is None or "str" not in ast.unparse(function.returns or ast.Constant(None)):
            return [HOLE]
        given = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
        return [text for value in given for text in source.texts(value, (function,), depth + 1)]

    def _leaves(self, name: str) -> list[str]:
        """Every text in a table of this module or of one that it imports."""
        source = self if name in self.values else self._imported(name)
        table = source.values.get(name) if source is not None else None
        if source is None or not isinstance(table, ast.Dict):
            return []
        return [text for value in table.values for text in source.texts(value, ()) if " " in text]

    def _module(self, name: str) -> "_Module | None":
        """A module that this one imports by that name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and name in {one.asname or one.name for one in node.names}:
                real = next(one.name for one in node.names if name == (one.asname or one.name))
                tree = modules().get(f"{node.module}.{real}")
                return _Module(f"{node.module}.{real}", tree) if tree is not None else None
        return None

    def _imported(self, name: str) -> "_Module | None":
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and name in {one.asname or one.name for one in node.names}:
                tree = modules().get(node.module or "")
                return _Module(node.module or "", tree) if tree is not None else None
        return None


def _given(node: ast.AST) -> Iterator[ast.expr]:
    """Values that are given as a remedy."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        yield from (word.value for word in node.keywords if word.arg == REMEDY)
        if not any(isinstance(one, ast.Starred) for one in node.args):
            yield from (node.args[at] for at in _takers().get(name, ()) if len(node.args) > at)
    if isinstance(node, ast.AugAssign) and REMEDY in (getattr(node.target, "id", ""), getattr(node.target, "attr", "")):
        yield node.value
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _defaults(node)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        yield from (value for key, value in pairs if isinstance(key, ast.Constant) and key.value == REMEDY)
    yield from (value for name, value in _assigned([node]) if name == REMEDY)


def _defaults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    names, given = node.args.args, node.args.defaults
    pairs = [*zip(names[len(names) - len(given) :], given, strict=True)]
    pairs += [(name, value) for name, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value]
    yield from (value for name, value in pairs if name.arg == REMEDY)


def _assigned(nodes: object) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:  # type: ignore[attr-defined]
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and node.value is not None:
                yield target.id, node.value
            elif isinstance(target, ast.Tuple):
                same = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(target.elts)
                values = node.value.elts if same else [node.value] * len(target.elts)
                yield from (
                    (one.id, value) for one, value in zip(target.elts, values, strict=True) if isinstance(one, ast.Name)
                )


def _joined(parts: list[list[str]]) -> list[str]:
    return ["".join(chosen) for _, chosen in zip(range(TEXTS_MAX), product(*parts), strict=False)]
