"""The documents of a revision come back out of the ledger: `history show N --files`, `rollback --write` (N36)."""

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.errors import Conflict
from holdfast.model.record import Link
from tests.fleets.commands import Scene, changed, scene
from tests.fleets.pasting import WEB, Result, Seat, seat
from tests.fleets.tools import HUB

KEPT = Path(".before-revision-3")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seat]:
    """Revision 1: web with a comment and a secret. Revision 2: other values, one service more. Both offline."""
    monkeypatch.chdir(tmp_path)
    found = seat(tmp_path / "my home")
    Path("services/web.toml").write_text("# the front\n" + WEB.replace("image =", 'secrets = ["db"]\nimage ='))
    Path("services/api.toml").write_text("# the back\n" + WEB)
    did(found, "holdfast secret set db")
    did(found, "holdfast apply")
    shutil.copytree(".", tmp_path / "then", ignore=shutil.ignore_patterns(".ledger"))
    did(found, "holdfast secret rotate db --generate")
    Path("services/web.toml").write_text(Path("services/web.toml").read_text().replace("8080", "8081"))
    Path("services/extra.toml").write_text(WEB)
    did(found, "holdfast apply")
    yield found


def did(person: Seat, line: str) -> Result:
    done = person.run(line)
    assert done.code == 0, (line, done)
    return done


def then(tmp_path: Path, path: str) -> bytes:
    return (tmp_path / "then" / path).read_bytes()


# ---- history show N --files DIR


def test_the_files_of_a_revision_are_written_to_a_new_directory_n36(here: Seat, tmp_path: Path) -> None:
    done = did(here, "holdfast history show 1 --files ../one")
    assert "comments" in done.out and "not kept" in done.out
    assert Path("../one/secrets/db.age").read_bytes() == then(tmp_path, "secrets/db.age"), "the same sealed bytes"
    assert sorted(path.name for path in Path("../one/services").iterdir()) == ["api.toml", "web.toml"]
    assert "8080" in Path("../one/services/web.toml").read_text()
    shutil.copytree("../one/services", "services", dirs_exist_ok=True)
    shutil.copytree("../one/secrets", "secrets", dirs_exist_ok=True)
    Path("services/extra.toml").unlink()
    did(here, "holdfast apply --allow-removals 1")
    assert "No changes" in did(here, "holdfast plan --fleet ../one --hub .ledger").out, "the content of revision 1"


def test_the_files_of_the_newest_revision_plan_no_changes_n36(here: Seat) -> None:
    shown = did(here, "holdfast history show 2 --files ../two --json").out
    assert (
        '"files":["fleet.toml","secrets/db.age","services/api.toml","services/extra.toml","services/web.toml"]' in shown
    )
    assert "No changes" in did(here, "holdfast plan --fleet ../two --hub .ledger").out


def test_nothing_is_overwritten_and_no_second_fleet_is_put_into_the_first_n36(here: Seat) -> None:
    Path("../full").mkdir()
    Path("../full/mine").write_text("mine")
    assert here.run("holdfast history show 1 --files ../new --raw").code == 2
    for where, code in (("../full", 5), ("../full/mine", 5), ("old", 2), (".", 5)):
        assert here.run(f"holdfast history show 1 --files {where}").code == code, where
    assert os.listdir("../full") == ["mine"] and not Path("old").exists()
    Path("../empty").mkdir()
    did(here, "holdfast history show 1 --files ../empty")
    did(here, "holdfast validate")


def test_a_hub_that_shows_another_revision_is_found_out_n36(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verified head names its ancestors: a hub cannot slip in documents that were never applied."""

    async def story(one: Scene) -> None:
        for version in (2, 3):
            one.operator.fleet = changed(one.operator.fleet, web=version)
            one.operator.does("apply", "--detach")
        honest = one.rig.hub.links

        def links(first: int, last: int) -> Sequence[Link]:
            return [*honest(1, 1), *honest(3, 3)] if (first, last) == (2, 3) else honest(first, last)

        monkeypatch.setattr(one.operator.held, "links", links, raising=False)
        one.operator.does("history", "show", "2", "--files", str(tmp_path / "old"), code=7)
        assert not (tmp_path / "old").exists()

    scene(tmp_path / "home", story)


# ---- rollback --write


def test_rollback_writes_what_differs_and_keeps_what_was_there_n36(here: Seat, tmp_path: Path) -> None:
    now = {path: Path(path).read_bytes() for path in ("services/web.toml", "services/extra.toml", "secrets/db.age")}
    done = did(here, "holdfast rollback 1 --write --allow-removals 1")
    assert [line for line in done.out.splitlines() if line[:4] in ("  ~ ", "  + ", "  - ") and "/" in line] == [
        "  ~ secrets/db.age",
        "  - services/extra.toml",
        "  ~ services/web.toml",
    ]
    assert "no comments" in done.out and f"The files of before are in ./{KEPT}" in done.err
    assert done.err.splitlines()[-1] == "Your files match this revision."
    assert "No changes" in did(here, "holdfast plan").out
    assert {path: (KEPT / path).read_bytes() for path in now} == now
    assert Path("secrets/db.age").read_bytes() == then(tmp_path, "secrets/db.age")
    assert Path("services/api.toml").read_bytes() == then(tmp_path, "services/api.toml"), "not touched: has its comment"
    assert not Path("services/extra.toml").exists()


def test_a_file_that_only_its_owner_reads_stays_so_n36(here: Seat) -> None:
    """It may have the address of a chat. What is kept of it is as private; a new file is as `init` makes it."""
    for path, mode in (("services/web.toml", 0o600), ("secrets/db.age", 0o640)):
        Path(path).chmod(mode)
    Path("services/api.toml").unlink()
    did(here, "holdfast rollback 1 --write --allow-removals 1")
    paths = ("services/web.toml", "secrets/db.age", "services/api.toml")
    assert [stat.S_IMODE(Path(path).stat().st_mode) for path in paths] == [0o600, 0o640, 0o644]
    assert stat.S_IMODE(KEPT.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in KEPT.rglob("*") if path.is_file()} == {0o600}


def test_a_half_edited_file_does_not_stop_it_n36_n30(here: Seat) -> None:
    Path("services/web.toml").write_text("name = \n")
    Path("services/bad.toml").write_text("half")
    did(here, "holdfast rollback 1 --write --allow-removals 1")
    assert "No changes" in did(here, "holdfast plan").out
    assert (KEPT / "services/bad.toml").read_text() == "half"


def test_files_that_match_already_are_left_alone_n36(here: Seat, tmp_path: Path) -> None:
    for path in ("services/web.toml", "secrets/db.age"):
        Path(path).write_bytes(then(tmp_path, path))
    Path("services/extra.toml").unlink()
    done = did(here, "holdfast rollback 1 --write --allow-removals 1")
    assert "Files of" not in done.out and not KEPT.exists()
    assert Path("services/web.toml").read_text().startswith("# the front")


def test_without_a_yes_nothing_is_rolled_back_and_nothing_written_n36(here: Seat) -> None:
    before = Path("services/web.toml").read_bytes()
    done = here.run("holdfast rollback 1 --write --allow-removals 1 < /dev/null")
    assert done.code == 2 and "--yes" in done.err
    assert Path("services/web.toml").read_bytes() == before
    assert "No changes" in did(here, "holdfast plan").out


def test_a_file_that_could_not_be_kept_is_refused_before_anything_happens_n36(here: Seat) -> None:
    Path("services/web.toml").rename("../web.toml")
    Path("services/web.toml").symlink_to("../../web.toml")
    assert here.run("holdfast rollback 1 --write --allow-removals 1").code == 2
    Path("services/web.toml").unlink()
    Path("../web.toml").rename("services/web.toml")
    assert "No changes" in did(here, "holdfast plan").out


def test_what_was_kept_before_is_never_overwritten_n36(here: Seat) -> None:
    KEPT.mkdir()
    (KEPT / "mine").write_text("mine")
    did(here, "holdfast rollback 1 --write --allow-removals 1")
    assert os.listdir(KEPT) == ["mine"] and Path(f"{KEPT}-2/services/web.toml").exists()


def test_with_a_hub_the_files_are_written_also_if_the_rollout_is_not_ready_n36(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.fleet = changed(one.operator.fleet, web=2)
        one.operator.does("apply", "--detach")
        one.operator.does("rollback", "1", "--write", "--timeout", "1s", code=6)
        directory = str(one.operator.home / "fleet")
        one.operator.out.truncate(0)
        assert main.run(["plan", "--fleet", directory, "--hub", HUB], one.operator) == 0
        assert "No changes" in one.operator.out.getvalue()

    scene(tmp_path, story)


def test_an_edit_during_the_rollout_is_not_overwritten_n36(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.fleet = changed(one.operator.fleet, web=2)
        one.operator.does("apply", "--detach")
        file = one.operator.home / "fleet" / "services" / "web.toml"

        def edit() -> None:
            file.write_bytes(b"# half-edited")

        one.then(edit)
        one.operator.does("rollback", "1", "--write", code=5)
        assert file.read_bytes() == b"# half-edited"
        assert "edited meanwhile" in one.operator.err.getvalue()

    scene(tmp_path, story)


def test_a_rollback_that_is_not_applied_writes_no_file_n36(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.fleet = changed(one.operator.fleet, web=2)
        one.operator.does("apply", "--detach")

        def refused(candidate: object) -> None:
            raise Conflict("another revision was applied", remedy="plan again", code="stale_base")

        one.operator.held.commit = refused  # type: ignore[assignment,method-assign]
        file = one.operator.home / "fleet" / "services" / "web.toml"
        before = file.read_bytes()
        one.operator.does("rollback", "1", "--write", code=5)
        assert file.read_bytes() == before and not list(file.parents[1].glob(".before*"))

    scene(tmp_path, story)
