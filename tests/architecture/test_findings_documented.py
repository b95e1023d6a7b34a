"""Every finding an agent can have is explained in its reference."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
AGENT = ROOT / "src" / "holdfast" / "agent"
PAGE = ROOT / "docs" / "reference" / "agent.md"


def raised(source: str) -> set[str]:
    """First arguments of `….findings.add(…)` and `add_trouble(…)`: a word, or a constant of the module."""
    tree = ast.parse(source)
    constants = {
        name.id: value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name, value in zip(_parts(target), _parts(node.value), strict=False)
        if isinstance(name, ast.Name) and isinstance(value, ast.Constant)
    }
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    words = (call.args[0] for call in calls if re.search(r"findings\.add(_trouble)?$", ast.unparse(call.func)))
    return {str(word.value) if isinstance(word, ast.Constant) else str(constants[ast.unparse(word)]) for word in words}


def _parts(node: ast.expr) -> list[ast.expr]:
    """Of `A, B = "one", "two"` either side; one alone is its own only part."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def test_every_finding_of_an_agent_is_in_its_reference() -> None:
    found = {code for path in AGENT.rglob("*.py") for code in raised(path.read_text())}
    page = PAGE.read_text()
    assert len(found) > 15 and sorted(code for code in found if f"`{code}`" not in page) == []


def test_findings_are_found_in_both_forms() -> None:
    source = 'A = "one"\nself._findings.add(A, x)\nself.findings.add_trouble("two", y)\nseen.add("three")'
    assert raised(source) == {"one", "two"}
    assert raised('A, B = "one", "two"\nself._findings.add(B, x)') == {"two"}
