"""The secrets directory, and components that name what is in it (S11, S13)."""

import pytest

from holdfast.adapters.fleet_directory.memory import Content, MemoryFleetDirectory
from holdfast.declared.load import load
from holdfast.model import sealed
from holdfast.model.fleet import Hooks, SecretRef
from tests.fleets.sealing import sealed_to
from tests.specs.declared.declared_fleets import BASE, WEB, fleet_of, only_problem, with_service

SEALED = sealed_to("w1", "@ada")


def naming(text: str, **files: Content) -> dict[str, Content]:
    return {**with_service(WEB + text), **{f"secrets/{name.replace('_', '-')}.age": c for name, c in files.items()}}


def test_a_component_names_secrets_as_files_and_as_variables() -> None:
    text = 'secrets = ["db", { name = "api-key", env = "API_KEY" }, { name = "tls", file = "tls.pem" }]\n'
    fleet = fleet_of(naming(text, db=SEALED, api_key=SEALED, tls=SEALED))
    (web,) = fleet.services["web"].components
    assert web.secrets == ("db", SecretRef("api-key", env="API_KEY"), SecretRef("tls", file="tls.pem"))
    assert fleet.secrets == {"api-key": SEALED, "db": SEALED, "tls": SEALED}


def test_a_component_has_hooks() -> None:
    text = 'hooks = { pre_deploy = ["migrate"], post_deploy = ["warm", "up"] }\n'
    (web,) = fleet_of(with_service(WEB + text)).services["web"].components
    assert web.hooks == Hooks(("migrate",), ("warm", "up"))
    found = only_problem(with_service(WEB + 'hooks = { before = ["x"] }\n'))
    assert found[2:4] == ("components[0].hooks.before", "unknown key")


def test_a_secret_that_is_not_there_is_a_mistake_with_the_command_that_makes_it() -> None:
    found = only_problem(naming('secrets = ["db-pasword"]\n', db_password=SEALED))
    assert found[:4] == ("services/web.toml", 4, "components[0].secrets[0]", "there is no secrets/db-pasword.age")
    assert found[4].startswith("holdfast secret set db-pasword") and 'did you mean "db-password"?' in found[4]


def test_whoever_is_about_to_make_it_may_read_the_fleet_without_it() -> None:
    files = naming('secrets = ["db"]\n')
    assert load(MemoryFleetDirectory(files), secrets_may_lack=True).secrets == {}


def test_armour_is_no_difference() -> None:
    """I-22: the same secret is the same digest, however it is written down."""
    assert fleet_of({**BASE, "secrets/db.age": sealed.armoured(SEALED)}) == fleet_of({**BASE, "secrets/db.age": SEALED})


def test_a_secret_nobody_names_is_no_mistake() -> None:
    assert list(fleet_of({**BASE, "secrets/db.age": SEALED, "secrets/.gitkeep": b""}).secrets) == ["db"]


@pytest.mark.parametrize(
    ("path", "content", "what"),
    [
        ("secrets/db.age", b"hunter2", "is not an age file"),
        ("secrets/db.age", SEALED[:60], "has a damaged header"),
        ("secrets/db.age", SEALED[: SEALED.index(b"\n--- ") + 50], "is incomplete"),
        ("secrets/db.age", b"x" * (sealed.FILE_BYTES_MAX + 1), "bytes long"),
        ("secrets/db.age", "symlink", "symbolic link"),
        ("secrets/db.age", "other", "not a plain file"),
        ("secrets/db.age", "directory", "is a directory"),
        ("secrets/db.txt", b"hunter2", "only sealed values"),
        ("secrets/DB.age", SEALED, "cannot be the name of a secret"),
        ("secrets/db.age.age", SEALED, "cannot be the name"),
    ],
    ids=str.split("plain cut-header cut-payload huge link pipe directory unsealed upper-case twice"),  # age is random
)
def test_what_does_not_belong_there_is_refused(path: str, content: Content, what: str) -> None:
    found = only_problem({**BASE, path: content})
    assert found[0] == path and what in found[3] and found[4]
    assert "hunter2" not in str(found)


def test_a_refused_file_is_not_also_called_missing() -> None:
    assert only_problem(naming('secrets = ["db"]\n', db=b"hunter2"))[0] == "secrets/db.age"


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ('secrets = ["db", "db"]\n', "the file db"),
        ('secrets = ["db", { name = "tls", file = "db" }]\n', "the file db"),
        ('secrets = [{ name = "db", env = "A" }, { name = "tls", env = "A" }]\n', "the variable A"),
        ('env = { A = "1" }\nsecrets = [{ name = "db", env = "A" }]\n', "the variable A"),
    ],
)
def test_two_things_in_one_place_are_a_mistake(text: str, shared: str) -> None:
    found = only_problem(naming(text, db=SEALED, tls=SEALED))
    assert found[2] == "components[0].secrets" and shared in found[3]


def test_one_secret_may_be_both_a_file_and_a_variable() -> None:
    assert fleet_of(naming('secrets = ["db", { name = "db", env = "DB" }]\n', db=SEALED)).secrets
    assert fleet_of(naming('secrets = [{ name = "db", env = "DB", file = "db.txt" }]\n', db=SEALED)).secrets


@pytest.mark.parametrize("file", ["../x", "a/b", "", ".x", "a b"])
def test_a_file_is_named_and_not_placed(file: str) -> None:
    found = only_problem(naming(f'secrets = [{{ name = "db", file = "{file}" }}]\n', db=SEALED))
    assert found[2] == "components[0].secrets[0].file"
