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


def test_a_silent_registry_is_a_warning_n31(place: Place, cli: Warm, shelf: DockerShelf) -> None:
    tag = shelf.reference("team/app", "nowhere")
    place.replace("services/hello.toml", IMAGE, tag)
    shelf.stop()
    (warning,) = cli.run(place, "plan", "--json").ok().json["warnings"]
    assert f"no registry gave a digest for {tag}" in warning and "pin it" in warning
    cli.run(place, "apply", "--yes").ok()
    shelf.start()
    assert cli.run(place, "plan").ok().out.startswith("No changes"), "what is applied already is no mistake"
    _, digest = shelf.push("team/app", "nowhere", "late")
    (change,) = cli.run(place, "plan", "--json").ok().json["changes"]
    assert change["fields"] == [{"path": f"image {tag}", "before": None, "after": digest}]
    assert cli.run(place, "plan", "--offline").ok().out.startswith("No changes"), "--offline asks nobody"


def test_a_tag_that_the_registry_does_not_have_is_a_mistake_of_the_file_n31(
    place: Place, cli: Warm, shelf: DockerShelf
) -> None:
    """`plan`, `apply` and `deploy` refuse it and name its line; what reads no file goes on."""
    cli.run(place, "apply", "--yes").ok()
    good, _ = shelf.push("team/app", "1", "first")
    place.replace("services/hello.toml", IMAGE, good)
    cli.run(place, "apply", "--yes").ok()
    typo = shelf.reference("team/app", "9")
    place.replace("services/hello.toml", good, typo)
    lines = (place.fleet / "services" / "hello.toml").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.startswith("image = "))
    for words in (["plan"], ["apply", "--yes"], ["deploy", "hello", "--yes"]):
        said = cli.run(place, *words, "--json").refused(2, "invalid_fleet")
        assert f"services/hello.toml:{line}: components[0].image: " in said["message"]
        assert f"does not have {typo}" in said["message"] and "holdfast plan --offline" in said["message"]
    assert typo in cli.run(place, "plan", "--offline").ok().out
    cli.run(place, "rollback", "--yes").ok()
    cli.run(place, "undeploy", "hello", "--yes").ok()
