"""Only the files that say something else than a revision are written anew (N36)."""

import pytest

from holdfast.adapters.fleet_directory.memory import Content, MemoryFleetDirectory
from holdfast.declared.load import load
from holdfast.declared.problem import Problem, Problems
from holdfast.declared.rendered import render
from holdfast.declared.rewriting import Files, Rewriting, read, rewriting
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from holdfast.planning.plan import plan
from holdfast.ports.fleet_directory import Unreadable
from tests.fleets.sealing import sealed_to
from tests.specs.declared.declared_fleets import FLEET, WEB, fleet_of
from tests.specs.planning.test_plan import after

RULE = b"permit (principal, action, resource);\n"
BOUND = FLEET + '[[policies]]\nname = "read"\nfile = "policies/rule.cedar"\napplies_to = ["fleet"]\n'
USING = 'node = "hub1"\n' + WEB + 'secrets = ["db"]\n'
SEALED = sealed_to("@ada")
THEN: dict[str, Content] = {
    "fleet.toml": f"# who\n{BOUND}".encode(),
    "policies/rule.cedar": RULE,
    "secrets/db.age": SEALED,
    "secrets/unused.age": sealed_to("@ada"),
    "services/api.toml": f"# why\n{WEB}".encode(),
    "services/web.toml": f"# why\n{USING}".encode(),
}


@pytest.fixture(scope="module")
def applied() -> Applied:
    return after(plan(fleet_of(THEN), None))


def needed(now: dict[str, Content], applied: Applied) -> Rewriting:
    """What must change so that a directory with these files says what is applied; and that it then does."""

    def loaded(files: Files) -> object:
        return load(MemoryFleetDirectory(files))

    files = read(MemoryFleetDirectory(now))
    found = rewriting(files, render(1, applied.table, applied.contents).files, applied.table, loaded)  # type: ignore[arg-type]
    then = {path: text for path, text in {**files, **found.written}.items() if path not in found.removed}
    assert plan(load(MemoryFleetDirectory(then)), applied).changes == ()
    assert found.before == {path: files[path] for path in (*found.written, *found.removed) if path in files}
    return found


def test_files_that_say_the_same_are_not_touched_n36(applied: Applied) -> None:
    assert not needed(THEN, applied)
    assert not needed({**THEN, "services/web.toml": f"\n{USING}\n# other words\n".encode()}, applied)


@pytest.mark.parametrize("text", [USING.replace("web:1", "web:2").encode(), b"name = \n", b"", b"\xff", WEB.encode()])
def test_one_service_that_differs_or_is_broken_is_written_alone_n36(applied: Applied, text: bytes) -> None:
    found = needed({**THEN, "services/web.toml": text}, applied)
    assert (list(found.written), found.removed) == (["services/web.toml"], ())


def test_what_the_revision_does_not_have_goes_and_what_it_lacks_comes_back_n36(applied: Applied) -> None:
    now = {path: text for path, text in THEN.items() if path not in ("services/api.toml", "secrets/db.age")}
    found = needed({**now, "services/new.toml": b"half", "services/notes.txt": b"mine"}, applied)
    assert sorted(found.written) == ["secrets/db.age", "services/api.toml"]
    assert found.removed == ("services/new.toml",)


def test_a_rotated_secret_comes_back_and_the_armour_does_not_matter_n36(applied: Applied) -> None:
    found = needed({**THEN, "secrets/db.age": sealed_to("@ada", value=b"wrong")}, applied)
    assert (list(found.written), found.removed) == (["secrets/db.age"], ())


SHARED: dict[str, dict[str, Content]] = {
    "another node": {"fleet.toml": (BOUND + '[[nodes]]\nname = "w9"\nroles = ["worker"]\n').encode()},
    "without the storage": {"fleet.toml": BOUND.replace("tank", "pool").encode()},
    "not TOML": {"fleet.toml": b"[fleet\n"},
    "blank": {"fleet.toml": b"\n"},
    "another rule": {"policies/rule.cedar": b"forbid (principal, action, resource);"},
    "another target": {"fleet.toml": BOUND.replace('["fleet"]', '["service.web"]').encode()},
    "bound to nothing": {"policies/more.cedar": RULE},
}


@pytest.mark.parametrize("now", SHARED.values(), ids=SHARED)
def test_fleet_toml_and_its_policies_are_written_together_n36(applied: Applied, now: dict[str, Content]) -> None:
    found = needed({**THEN, **now}, applied)
    assert set(found.written) == {"fleet.toml", "policies/read.cedar"}
    assert set(found.removed) == {path for path in (*THEN, *now) if path.startswith("policies/")}


@pytest.mark.parametrize("also", [("tank", "pool"), ("worker", "worker"), ('name = "read"', 'name = "r" x')])
def test_a_service_that_only_the_new_fleet_file_makes_wrong_n36(applied: Applied, also: tuple[str, str]) -> None:
    """services/web.toml says the same as then; the fleet file of now does not have its node."""
    other = BOUND.replace("hub1", "h9").replace(*also)
    found = needed({**THEN, "fleet.toml": other.encode()}, applied)
    assert "fleet.toml" in found.written and not any(path.startswith("services/") for path in found.written)


def test_without_a_fleet_file_it_comes_back_n36(applied: Applied) -> None:
    now = {path: text for path, text in THEN.items() if path != "fleet.toml"}
    assert "fleet.toml" in needed(now, applied).written


@pytest.mark.parametrize("in_the_way", ["symlink", "other", "directory"])
def test_what_cannot_be_read_could_not_be_kept_and_is_refused_n36(in_the_way: Content) -> None:
    with pytest.raises(Unreadable):
        read(MemoryFleetDirectory({**THEN, "services/web.toml": in_the_way}))


def test_hidden_files_are_the_operators_own_n36(applied: Applied) -> None:
    """As an editor leaves them."""
    assert not needed({**THEN, "services/.web.toml": b"mine"}, applied)


def test_if_no_file_can_be_blamed_all_are_written_n36(applied: Applied) -> None:
    """A mistake that no written file explains: the ledger's own files are the best that is known."""
    files = read(MemoryFleetDirectory({**THEN, "services/web.toml": b"= broken"}))
    rendered = render(1, applied.table, applied.contents).files

    def loaded(given: Files) -> Fleet:
        raise Problems([Problem("elsewhere.toml", 1, "", "is wrong")])

    assert rewriting(files, rendered, applied.table, loaded).written.keys() == rendered.keys() - {
        path for path, text in files.items() if rendered.get(path) == text
    }
