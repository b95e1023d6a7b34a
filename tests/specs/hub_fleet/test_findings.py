"""The start-up report's table: every rule speaks codes that the table has, every row has words and a remedy (M-76)."""

import ast
from pathlib import Path
from typing import Any

from holdfast.hub.watchers import fleet_findings, standby
from holdfast.model.report import NodeFinding, Parked
from tests.fleets.build import START_S
from tests.fleets.commands import Scene, scene

AT = fleet_findings.Moment(START_S, 0.0)


def test_every_code_a_rule_names_is_in_the_table_and_every_row_is_used() -> None:
    assert _named(Path(fleet_findings.__file__).read_text()) == set(fleet_findings.ROWS)
    assert _named(Path(standby.__file__).read_text()) == set(standby.ROWS)


def _named(source: str) -> set[str]:
    return {
        str(call.args[0].value)
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "_finding"
        and isinstance(call.args[0], ast.Constant)
    }


def test_every_remedy_can_be_filled_in() -> None:
    for code, (level, remedy) in {**fleet_findings.ROWS, **standby.ROWS}.items():
        text = remedy.format(node="w1", service="web")
        assert level == "warning" and "{" not in text and text, code


def test_a_node_is_called_degraded_only_where_it_names_nothing_that_is_wrong(tmp_path: Path) -> None:
    """What it names is shown with its own remedy; the same once more, in other words, helps nobody."""

    async def story(one: Scene) -> None:
        def told(**said: Any) -> list[str]:
            one.says(health="degraded", **said)
            found = fleet_findings.findings(one.rig.registry.members, one.rig.hub.applied(), AT)
            return [each.code for each in found if each.code not in ("node_not_joined", "node_unhealthy")]

        own = NodeFinding("crash_loop", "main 0 of web ends again", "holdfast logs web", address="service.web")
        parked = Parked("service.db", "a signature is missing", "holdfast sign", START_S)
        assert told() == ["node_degraded"]
        assert told(findings=(own,)) == ["crash_loop"]
        assert told(parked=(parked,)) == ["needs_operator"]

    scene(tmp_path, story)
