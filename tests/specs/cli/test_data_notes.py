"""A plan says what an update of a service with data does: how long it stops, what is copied before. N12"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.memory import MemorySealer
from holdfast.cli.volumes.data_notes import sentence
from holdfast.model import trust
from holdfast.model.data_figures import DataFigures, DataSection
from holdfast.model.fleet import Component, Fleet, SecretRef, Service, Volume
from holdfast.model.purpose import Purpose, wrapped
from holdfast.planning import formats
from tests.fleets.build import digest_pinned, small_fleet
from tests.fleets.commands import Scene, scene
from tests.fleets.desks import key_of
from tests.specs.hub_fleet.test_verbs import at_once

DATA = Volume("book", "/data", "none")
CACHE = Volume("cache", "/cache", "none", checkpoint="off")
GIB = 1 << 30
FLEET_ID = trust.digest(trust.of(small_fleet().operators, small_fleet().thresholds))
FIGURES = DataFigures("web", 3 * GIB, 20_000, 2 * GIB, 68 * GIB, 2.0)
OTHERS = DataFigures("db", GIB, 1, GIB, 68 * GIB, 9.0)
NOTE = "stops web for about 2 s, copies 2.0 GiB before (data: 3.0 GiB in 20000 files; free: 68.0 GiB)"


def with_data(version: int = 1, *volumes: Volume, **more: Any) -> Fleet:
    component = Component("main", digest_pinned(f"web:{version}"), volumes=volumes or (DATA,), **more)
    return small_fleet({"web": Service((component,))}, ("w1", "w2"))


def noted(one: Scene, fleet: Fleet) -> list[str]:
    document = msgspec.json.decode(one.w1.a_report(services=(one.state("converged"),), runtime="memory 1"))
    section = msgspec.to_builtins(DataSection((OTHERS, FIGURES)))
    one.w1.seen = one.rig.head
    text = msgspec.json.encode({**document, **section})
    pulse = one.w1.pulse(text, format=formats.NEWEST)
    at_once(one.w1.says(heartbeat=True, pulse=pulse, report=text, clock_s=one.rig.clock.now_s()))
    one.operator.fleet = replace(fleet, settings=one.operator.fleet.settings)
    return notes_of(one)


def notes_of(one: Scene) -> list[str]:
    changes = msgspec.json.decode(one.operator.does("plan", "--json"))["changes"]
    return [note for change in changes if change["address"] == "service.web" for note in change["notes"]]


def seal(value: str) -> bytes:
    purpose = Purpose(FLEET_ID, "pw", ("service.web",))
    return MemorySealer(SeededRandom(value)).seal(wrapped(value.encode(), purpose), [key_of("w1").line])


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (with_data(2), [NOTE]),
        (with_data(2, CACHE, DATA), [NOTE]),
        (with_data(1, env={"MODE": "new"}), [NOTE]),
        (with_data(1, replicas=1, update="recreate"), []),
        (with_data(2, replace(DATA, checkpoint="off")), []),
        (with_data(), []),
    ],
    ids=["image", "one volume is off", "variable", "no other writer", "off", "no change"],
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


def test_the_figures_are_those_of_the_node_that_has_the_data(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        await one.w2.join()
        at_once(one.w2.beat(one.w2.a_report()))
        assert noted(one, elsewhere(2)) == []

    scene(tmp_path, story, elsewhere(1))


def elsewhere(version: int) -> Fleet:
    """On w2, while w1 has figures of a service of this name."""
    fleet = with_data(version)
    return replace(fleet, services={"web": replace(fleet.services["web"], node="w2")})


def test_another_secret_is_another_writer_and_its_note_stays(tmp_path: Path) -> None:
    """The declared service is the same: only the digest of its sealed file changes."""

    def sealed(value: str) -> Fleet:
        return replace(with_data(secrets=(SecretRef("pw"),)), secrets={"pw": seal(value)})

    async def story(one: Scene) -> None:
        file = one.operator.home / "fleet" / "secrets" / "pw.age"
        file.parent.mkdir(parents=True)
        file.write_bytes(seal("2"))
        first, second = noted(one, sealed("2"))
        assert "pw" in first and second == NOTE

    scene(tmp_path, story, sealed("1"))


def test_what_is_shared_with_another_checkpoint_is_not_copied() -> None:
    assert "copies nothing before" in sentence(replace(FIGURES, written_bytes=0))
    assert "for about 0.7 s" in sentence(replace(FIGURES, down_s=0.7))
