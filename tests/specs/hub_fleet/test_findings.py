"""The start-up report's table: every rule speaks codes that the table has, every row has words and a remedy (M-76)."""

import ast
from pathlib import Path

from holdfast.hub import startup


def test_every_code_a_rule_names_is_in_the_table_and_every_row_is_used() -> None:
    source = Path(startup.__file__).read_text()
    named = {
        call.args[0].value
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "_finding"
        and isinstance(call.args[0], ast.Constant)
    }
    assert named == set(startup.ROWS)


def test_every_remedy_can_be_filled_in() -> None:
    for code, (level, remedy) in startup.ROWS.items():
        text = remedy.format(node="w1", service="web")
        assert level == "warning" and "{" not in text and text, code
