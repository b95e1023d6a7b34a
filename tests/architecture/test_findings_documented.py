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
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    words = (call.args[0] for call in calls if re.search(r"findings\.add(_trouble)?$", ast.unparse(call.func)))
    return {str(word.value) if isinstance(word, ast.Constant) else str(constants[ast.unparse(word)]) for word in words}


def test_every_finding_of_an_agent_is_in_its_reference() -> None:
    found = {code for path in AGENT.glob("*.py") for code in raised(path.read_text())}
    page = PAGE.read_text()
    assert len(found) > 15 and sorted(code for code in found if f"`{code}`" not in page) == []


def test_findings_are_found_in_both_forms() -> None:
    source = 'A = "one"\nself._findings.add(A, x)\nself.findings.add_trouble("two", y)\nseen.add("three")'
    assert raised(source) == {"one", "two"}
