"""What may lie in a fleet directory, and what is said when nothing does: I-37, C-08, M-124."""

import errno

import pytest

from holdfast.adapters.fleet_directory.memory import Content, MemoryFleetDirectory
from holdfast.declared.load import load
from holdfast.errors import Invalid
from tests.specs.declared.declared_fleets import BASE, FLEET, WEB, fleet_of, lines_of, only_problem, problems_of

ODD: list[tuple[Content, str]] = [
    ("symlink", "is a symbolic link; Holdfast follows no links"),
    ("other", "is not a plain file"),
    ("directory", "is a directory where a file is expected"),
    (OSError(errno.EIO, "Input/output error"), "cannot be read: Input/output error"),
    (OSError(errno.EACCES, "Permission denied"), "cannot be read: Permission denied"),
]


def refusal_of(files: dict[str, Content], name: str = "fleet") -> Invalid:
    with pytest.raises(Invalid) as caught:
        load(MemoryFleetDirectory(files, name))
    return caught.value


@pytest.mark.parametrize("files", [{}, {".git/config": b""}, {".ledger": "directory"}])
def test_an_empty_directory_is_never_an_empty_fleet_i37_c08(files: dict[str, Content]) -> None:
    refusal = refusal_of(files, "my fleet")
    assert (refusal.code, refusal.exit_code) == ("fleet_empty", 2)
    assert refusal.remedy == "holdfast init 'my fleet'"


def test_a_directory_without_fleet_toml_is_no_fleet_i37() -> None:
    refusal = refusal_of({"services/web.toml": WEB.encode()}, "f")
    assert (refusal.code, refusal.remedy) == (
        "fleet_missing",
        "give your fleet directory with --fleet DIR; to create a new fleet here: holdfast init f",
    )


def test_a_misspelt_fleet_toml_is_recognised() -> None:
    assert 'did you mean "Fleet.toml"?' in refusal_of({"Fleet.toml": FLEET.encode()}).message


@pytest.mark.parametrize("content", [b"", b"\n  \r\n", b"# only a comment\n"])
def test_an_empty_fleet_toml_is_never_an_empty_fleet_i37_c08(content: bytes) -> None:
    refusal = refusal_of({**BASE, "fleet.toml": content}, "f/")
    assert refusal.code == "fleet_empty"
    assert refusal.remedy == "rm f/fleet.toml && holdfast init f/"


@pytest.mark.parametrize("path", ["fleet.toml", "services/web.toml"])
@pytest.mark.parametrize(("content", "what"), ODD)
def test_what_is_not_a_readable_file_is_reported_never_skipped_i37(path: str, content: Content, what: str) -> None:
    found = only_problem({**BASE, path: content})
    assert found[:3] == (path, 0, "")
    assert found[3].startswith(what) and found[4] != ""


@pytest.mark.parametrize("content", ["symlink", "other", "directory"])
def test_what_is_not_a_file_is_not_even_opened_because_opening_a_device_may_act_s11(content: Content) -> None:
    opened: list[str] = []

    class Watched(MemoryFleetDirectory):
        def read(self, path: str, bytes_max: int) -> bytes:
            opened.append(path)
            return super().read(path, bytes_max)

    with pytest.raises(Invalid):
        load(Watched({**BASE, "services/web.toml": content}))
    assert opened == ["fleet.toml"]


@pytest.mark.parametrize("directory", ["services", "policies", "guests", "graphs", "secrets"])
@pytest.mark.parametrize("content", ["symlink", "other", b"file"])
def test_a_known_directory_that_is_none_is_refused_s11(directory: str, content: Content) -> None:
    files = {"fleet.toml": BASE["fleet.toml"], directory: content}
    assert only_problem(files)[::4] == (directory, "replace it with a directory")


@pytest.mark.parametrize("directory", ["guests", "graphs"])
def test_a_directory_whose_feature_is_not_built_yet_is_refused_unless_empty(directory: str) -> None:
    assert fleet_of({**BASE, directory: "directory"}).settings.name == "home"
    assert fleet_of({**BASE, f"{directory}/.gitkeep": b""}).settings.name == "home"
    found = only_problem({**BASE, f"{directory}/x": b""})
    assert found[0] == directory and found[3].startswith("not built yet: ")


@pytest.mark.parametrize(
    "path",
    ["fleet.lock", ".ledger/head", "README.md", ".git/config", ".github/x.toml", "notes.txt", "docs/a.md", ".x.toml"],
)
def test_what_is_none_of_our_business_is_ignored_m124(path: str) -> None:
    assert fleet_of({**BASE, path: b"\xff"}) == fleet_of(BASE)


@pytest.mark.parametrize("path", ["services/README.md", "services/.web.toml.swp", "services/web.toml~"])
def test_other_files_beside_services_are_ignored(path: str) -> None:
    assert fleet_of({**BASE, path: b"\xff"}) == fleet_of(BASE)


def test_a_toml_file_beside_fleet_toml_is_told_where_it_belongs() -> None:
    assert lines_of({**BASE, "flet.toml": b"", "web.toml": b""}) == [
        'flet.toml: Holdfast does not read this file; did you mean "fleet.toml"?',
        'web.toml: Holdfast does not read this file; a service belongs in "services/web.toml"',
    ]


def test_a_misspelt_directory_with_toml_files_names_the_nearest_one() -> None:
    assert lines_of({**BASE, "service/api.toml": WEB.encode(), "examples/x.toml": b""}) == [
        "examples: holds .toml files, but Holdfast does not read this directory; "
        "move its services to services/, or the directory elsewhere",
        'service: holds .toml files, but Holdfast does not read this directory; did you mean "services/"?',
    ]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("services/team/api.toml", b""),
        ("services/team", "symlink"),
        ("services/api.yaml", b"!!python/object/apply:os.system ['id']"),
        ("services/api.json", b"{}"),
        ("services/api.TOML", b""),
    ],
)
def test_what_looks_like_a_service_and_is_not_read_is_refused_i37(path: str, content: Content) -> None:
    (problem,) = problems_of({**BASE, path: content})
    assert problem.file == path.removesuffix("/api.toml")


def test_one_service_over_its_size_is_refused_before_it_is_parsed() -> None:
    found = only_problem({**BASE, "services/web.toml": b"#\n" * (128 * 1024) + b"#"})
    assert found[3] == "is 262,145 bytes long; the limit is 262,144 bytes"


def test_a_fleet_over_its_total_size_is_refused_before_it_is_read() -> None:
    big = b"#\n" * 100_000
    files: dict[str, Content] = {f"services/s{at}.toml": big for at in range(400)}
    found = only_problem({"fleet.toml": FLEET.encode(), **files})
    assert found[0] == "services" and "the limit is 67,108,864 bytes" in found[3]


def test_a_directory_without_services_is_a_fleet_without_services_m124() -> None:
    assert fleet_of({"fleet.toml": FLEET.encode()}).services == {}
    assert fleet_of({"fleet.toml": FLEET.encode(), "services": "directory"}).services == {}
