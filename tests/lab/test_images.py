"""Image tags become digests when a registry answers; when none does, that is said (on a real docker-registry)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.test_registry import DockerShelf
from tests.lab.product import IMAGE, Place, Warm, new_place, warm

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def cli() -> Iterator[Warm]:
    with warm() as interpreter:
        yield interpreter


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[DockerShelf]:
    (tmp_path / "registry").mkdir()
    registry = DockerShelf(tmp_path / "registry")
    yield registry
    registry.stop()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path / "place")


def test_a_tag_is_applied_as_a_digest_and_a_moved_tag_is_its_own_line(
    place: Place, cli: Warm, shelf: DockerShelf
) -> None:
    tag, first = shelf.push("team/app", "1", "first")
    place.replace("services/hello.toml", IMAGE, tag)
    shown = cli.run(place, "plan", "--json").ok().json
    assert shown["warnings"] == []
    cli.run(place, "apply", "--yes").ok()
    assert cli.run(place, "plan").ok().out.startswith("No changes")

    _, second = shelf.push("team/app", "1", "second")
    (change,) = cli.run(place, "plan", "--json").ok().json["changes"]
    assert change["address"] == "service.hello"
    assert change["fields"] == [{"path": f"image {tag}", "before": first, "after": second}]
    assert f"image {tag}" in cli.run(place, "plan").ok().out

    shelf.stop()
    assert cli.run(place, "plan").ok().out.startswith("No changes"), "a silent registry keeps what was applied"


def test_without_an_answer_the_plan_warns_and_goes_on(place: Place, cli: Warm, shelf: DockerShelf) -> None:
    tag = shelf.reference("team/app", "nowhere")
    place.replace("services/hello.toml", IMAGE, tag)
    (warning,) = cli.run(place, "plan", "--json").ok().json["warnings"]
    assert f"no registry gave a digest for {tag}" in warning and "pin it" in warning
    cli.run(place, "apply", "--yes").ok()
    _, digest = shelf.push("team/app", "nowhere", "late")
    (change,) = cli.run(place, "plan", "--json").ok().json["changes"]
    assert change["fields"] == [{"path": f"image {tag}", "before": None, "after": digest}]
    assert cli.run(place, "plan", "--offline").ok().out.startswith("No changes"), "--offline asks nobody"
