"""Foreign text is printed by `Terminal` alone, as one line or as a block (X09, X20)."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture import measures

PRINTER = "cli/terminal.py"
# Modules that print something as it is, and what: bytes that a program reads, and logs, whose reader may ask for them.
RAW = {
    "cli/logs/logs.py": "log lines: made harmless there, unless the reader asks for --raw",
    "cli/nodes/ca_bundle.py": "PEM, made here from certificates whose digests are signed",
    "cli/shell/completion.py": "our own shell scripts",
    "cli/secrets/secret_get.py": "the value of a secret; to a terminal without control characters",
    "cli/fleet/history_show.py": "the signed bytes, with --raw or --signature",
}
OWN_STREAMS = {
    "cli/reference.py": "a page of the documentation, for its developer",
    "cli/flags.py": "whether a terminal is there, and how wide it is",
}
AS_IT_IS = ("say_raw", "Raw", "say_exactly")


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {path: tree for path, tree in measures.sources() if path.startswith("cli/")}


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr, node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node


def is_json(call: ast.Call) -> bool:
    """`msgspec.json.encode(…).decode()`: one line, in which every text keeps its escapes."""
    return ast.unparse(call.args[0]).startswith("msgspec.json.encode(")


def streams(tree: ast.Module) -> list[str]:
    names = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return [name for name in names if name in ("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__")]


def test_only_the_terminal_writes_to_the_streams(trees: dict[str, ast.Module]) -> None:
    others = {path: tree for path, tree in trees.items() if path != PRINTER}
    assert [path for path, tree in others.items() if any(name == "print" for name, _ in calls(tree))] == []
    assert {path for path, tree in others.items() if streams(tree)} == set(OWN_STREAMS)


def test_only_documents_and_listed_modules_are_printed_as_they_are(trees: dict[str, ast.Module]) -> None:
    found = {
        path
        for path, tree in trees.items()
        for name, call in calls(tree)
        if name in AS_IT_IS and path != PRINTER and not is_json(call)
    }
    assert found == set(RAW)


def test_the_terminal_makes_every_other_text_harmless(trees: dict[str, ast.Module]) -> None:
    """Every method of it that writes a text has the painter make its lines."""
    (terminal,) = (n for n in ast.walk(trees[PRINTER]) if isinstance(n, ast.ClassDef) and n.name == "Terminal")
    for method in terminal.body:
        if not isinstance(method, ast.FunctionDef) or not any(arg.arg == "text" for arg in method.args.args):
            continue
        body = ast.unparse(method)
        if ".write(" in body or "_tell(" in body:
            assert method.name == "_tell" or "self._painter.lines(" in body, method.name


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("terminal.say_raw(one.message)", 1),
        ("terminal.say_raw(msgspec.json.encode(one).decode())", 0),
        ("box.terminal.say_exactly(x)", 1),
        ("terminal.say(one.message)", 0),
    ],
)
def test_the_search_finds_what_it_must(source: str, count: int) -> None:
    found = [call for name, call in calls(ast.parse(source)) if name in AS_IT_IS and not is_json(call)]
    assert len(found) == count
