"""Rights of the directories above a state directory: made so that the units may enter, and told when they may not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleets.lab_pasting import pastes
from tests.fleets.pasting import Result, Seat, seat

pytestmark = pytest.mark.lab

STRANGER = 65534


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Seat]:
    before, mask = os.getcwd(), os.umask(0o077)
    for one in (tmp_path, *tmp_path.parents):
        if not os.stat(one).st_mode & 0o001:
            one.chmod(0o711)  # pytest's own directories, so that only ours decide
    try:
        yield seat(tmp_path / "home")
    finally:
        os.umask(mask)
        os.chdir(before)


@contextmanager
def as_another_user() -> Iterator[None]:
    os.setegid(STRANGER)
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_hub_init_lets_every_user_enter_what_is_above_its_state_n01(person: Seat, tmp_path: Path) -> None:
    """The hub's unit runs as a user of its own. The state directory is systemd's to give it, its parents are not."""
    made = tmp_path / "lib" / "holdfast" / "hub"
    assert person.run(f"holdfast hub init --trust {person.fleet_id()} --state-dir {made}").code == 0
    assert [mode(one) for one in (made.parent.parent, made.parent, made)] == [0o755, 0o755, 0o700]
    assert {mode(one) for one in made.iterdir()} == {0o600}


def test_a_directory_that_may_not_be_entered_is_no_damage_n01(person: Seat, tmp_path: Path) -> None:
    """Exit 3, not 7: systemd tries again after 5 seconds, and the remedy is enough."""
    above, state = tmp_path / "lib dir", tmp_path / "lib dir" / "hub"
    assert person.run(f"holdfast hub init --trust {person.fleet_id()} --state-dir '{state}'").code == 0
    check, run = (
        f"holdfast hub check --state-dir '{state}'",
        f"holdfast hub run --state-dir '{state}' --listen 127.0.0.1:0",
    )
    assert person.run(check).code == 0
    above.chmod(0o700)
    for one in (state, *state.iterdir()):
        os.chown(one, STRANGER, STRANGER)  # as systemd does for the unit
    for line in (check, run):
        with as_another_user():
            refused = person.run(line)
        assert refused.code == 3 and f"may not enter {above}" in refused.err and "backup" not in refused.err, refused
    pastes("chmod a+x {}", refused.remedies, person.run)
    with as_another_user():
        assert person.run(check).code == 0


def test_a_ledger_of_another_user_is_no_damage_n01(person: Seat, tmp_path: Path) -> None:
    state = tmp_path / "hub"
    assert person.run(f"holdfast hub init --trust {person.fleet_id()} --state-dir {state}").code == 0
    assert person.run(f"holdfast hub check --state-dir {state}").code == 0

    def refused() -> Result:
        with as_another_user():
            return person.run(f"holdfast hub check --state-dir {state}")

    for opened in (0o700, 0o755):  # the directory is closed; the file is
        state.chmod(opened)
        said = refused()
        assert said.code == 3 and "may not read" in said.err and "sudo" in said.err, said
