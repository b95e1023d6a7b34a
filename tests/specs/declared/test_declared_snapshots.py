"""[snapshot] of a service file: read, and every mistake told with its place and a remedy (M-91)."""

import pytest

from holdfast.model import coverage
from tests.specs.declared.declared_fleets import WEB, fleet_of, only_problem, with_service

VOLUME = '[[components.volumes]]\nname = "{0}"\npath = "/{0}"\nprotect = "backup"\n'
ONE = WEB + VOLUME.format("base")
TWO = ONE + VOLUME.format("art")
SECOND = '[[components]]\nname = "db"\nimage = "registry.example.com/db:1"\n'
EXEC = '[snapshot]\nmethod = "exec: dump \'all of it\'"\nrestore = "load"\n'


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        (ONE + EXEC, ["dump"]),
        (ONE + '[snapshot]\nmethod = "postgres"\n', ["dump"]),
        (TWO + EXEC + 'volume = "art"\n', ["whole", "dump"]),
        (SECOND + ONE + EXEC + 'component = "web"\n', ["dump"]),
        (ONE + '[snapshot]\nmethod = "full"\n', ["whole"]),
    ],
)
def test_the_dump_stands_for_one_volume_and_every_other_one_is_held_whole(text: str, extents: list[str]) -> None:
    service = fleet_of(with_service(text)).services["web"]
    assert [one.extent for one in coverage.of_service("web", service)] == extents


@pytest.mark.parametrize(
    ("text", "where", "message", "remedy"),
    [
        (ONE + EXEC.replace("all of it'", "all"), "snapshot.method", "has no command", "as in a shell"),
        (ONE + EXEC.replace('"load"', '"load \'all"'), "snapshot.restore", "has no command", "as in a shell"),
        (TWO + EXEC, "snapshot", "several volumes that are backed up", "volume = one of: base, art"),
        (TWO + EXEC + 'volume = "arts"\n', "snapshot.volume", "has no volume", "one of: base, art"),
        (WEB + EXEC, "snapshot.method", "has no volume with protect", 'protect = "backup"'),
        (ONE + SECOND + EXEC, "snapshot", "several components", "component = one of: db, web"),
        (ONE + EXEC + 'component = "wep"\n', "snapshot.component", "no component", 'did you mean "web"?'),
        (ONE + EXEC + 'include = ["base/*.conf"]\n', "snapshot.include", "the dump stands for all of it", "remove it"),
        (ONE + '[snapshot]\nmethod = "full"\nrestore = "load"\n', "snapshot.restore", "has an effect only", "exec: "),
        (ONE + '[snapshot]\nvolume = "base"\n', "snapshot.volume", "has an effect only", "remove the key"),
        (ONE + '[snapshot]\ncomponent = "web"\n', "snapshot.component", "has an effect only", "remove the key"),
        (ONE + '[snapshot]\nmethod = "oracle"\n', "snapshot.method", "oracle", "postgres"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_a_remedy(text: str, where: str, message: str, remedy: str) -> None:
    _, _, key, what, told = only_problem(with_service(text))
    assert key.startswith(where) and message in what and remedy in f"{what} {told}", (key, what, told)
