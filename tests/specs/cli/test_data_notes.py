"""A plan says what an update of a service with data does: how long it stops, what is copied before. N12"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.cli.volumes.data_notes import sentence
from holdfast.model.data_figures import DataFigures, DataSection
from holdfast.model.fleet import Component, Fleet, Service, Volume
from tests.fleets.build import digest_pinned, small_fleet
from tests.fleets.commands import Scene, scene
from tests.specs.hub_fleet.test_verbs import at_once

DATA = Volume("book", "/data", "none")
GIB = 1 << 30
FIGURES = DataFigures("web", 3 * GIB, 20_000, 2 * GIB, 68 * GIB, 2.0)
NOTE = "stops web for about 2 s, copies 2.0 GiB before (data: 3.0 GiB in 20000 files; free: 68.0 GiB)"


def with_data(version: int = 1, volume: Volume = DATA, **more: Any) -> Fleet:
    component = Component("main", digest_pinned(f"web:{version}"), volumes=(volume,), **more)
    return small_fleet({"web": Service((component,))}, ("w1", "w2"))


def noted(one: Scene, fleet: Fleet) -> list[str]:
    document = msgspec.json.decode(one.w1.a_report(services=(one.state("converged"),), runtime="memory 1"))
    section = msgspec.to_builtins(DataSection((FIGURES,)))
    one.w1.seen = one.rig.head
    at_once(one.w1.beat(msgspec.json.encode({**document, **section})))
    one.operator.fleet = replace(fleet, settings=one.operator.fleet.settings)
    changes = msgspec.json.decode(one.operator.does("plan", "--json"))["changes"]
    return [note for change in changes if change["address"] == "service.web" for note in change["notes"]]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (with_data(2), [NOTE]),
        (with_data(1, env={"MODE": "new"}), [NOTE]),
        (with_data(1, replicas=1, update="recreate"), []),
        (with_data(2, replace(DATA, checkpoint="off")), []),
        (with_data(), []),
    ],
    ids=["image", "variable", "no other writer", "off", "no change"],
)
def test_the_plan_says_what_another_writer_costs(tmp_path: Path, after: Fleet, expected: list[str]) -> None:
    async def story(one: Scene) -> None:
        assert noted(one, after) == expected
        if expected:
            assert f"note: {NOTE}" in one.operator.does("plan")

    scene(tmp_path, story, with_data())


def test_a_node_that_did_not_sign_figures_proves_none(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        one.operator.fleet = replace(with_data(2), settings=one.operator.fleet.settings)
        changes = msgspec.json.decode(one.operator.does("plan", "--json"))["changes"]
        assert [change["notes"] for change in changes if change["address"] == "service.web"] == [[]]

    scene(tmp_path, story, with_data())


def test_what_is_shared_with_another_checkpoint_is_not_copied() -> None:
    assert "copies nothing before" in sentence(replace(FIGURES, written_bytes=0))
    assert "for about 0.7 s" in sentence(replace(FIGURES, down_s=0.7))
