"""A person signs once and works for hours: what is kept between commands, and when it is made anew (C-06)."""

import os
from pathlib import Path

import pytest

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.adapters.sessions.file import LEFT_S_MIN, FileSessions
from holdfast.adapters.signer.memory import MemorySigner
from holdfast.errors import NotPermitted
from holdfast.model.fleet import Thresholds
from holdfast.model.session import SESSION_S_MAX
from holdfast.model.ssh_key import PublicKey
from holdfast.model.trust import of
from holdfast.trust.sessions import verify_session
from tests.fleets.build import ALICE, operator_signer

NOW_S = 1_700_000_000.0
FLEET, OTHER_FLEET = "a" * 64, "b" * 64
TRUST = of((ALICE,), Thresholds())


class CountingSigner:
    def __init__(self, inner: MemorySigner) -> None:
        self._inner = inner
        self.asked = 0

    @property
    def public_key(self) -> PublicKey:
        return self._inner.public_key

    def sign(self, message: bytes, namespace: str) -> str:
        self.asked += 1
        return self._inner.sign(message, namespace)


class Person:
    def __init__(self, folder: Path, name: str = "alice") -> None:
        self.folder = folder / "sessions"
        self.clock = VirtualClock(NOW_S)
        self.signer = CountingSigner(operator_signer(name)[1])

    def command(self) -> FileSessions:
        """What one run of the command line has; the next one has another."""
        return FileSessions(str(self.folder), PosixDisk(), self.clock, SystemRandom(), lambda: self.signer)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_a_session_is_good_for_a_hub(person: Person) -> None:
    made = person.command().session(FLEET)
    who = verify_session(made.certificate, made.key.line, FLEET, TRUST, NOW_S)
    assert (who.kind, who.name) == ("operator", "alice")


def test_one_signature_is_enough_for_many_commands(person: Person) -> None:
    first = person.command().session(FLEET)
    again = [person.command().session(FLEET) for _ in range(5)]
    assert person.signer.asked == 1
    assert {session.key.line for session in again} == {first.key.line}
    assert again[0].key.sign(b"x") == first.key.sign(b"x")


def test_every_fleet_and_every_operator_has_its_own(person: Person, tmp_path: Path) -> None:
    bob = Person(tmp_path, "bob")
    found = [
        person.command().session(FLEET),
        person.command().session(OTHER_FLEET),
        person.command().session(""),
        bob.command().session(FLEET),
    ]
    assert len({session.key.line for session in found}) == 4
    assert (person.signer.asked, bob.signer.asked) == (3, 1)


def test_it_is_renewed_when_little_is_left(person: Person) -> None:
    first = person.command().session(FLEET)
    person.clock.sleep(SESSION_S_MAX - LEFT_S_MIN - 1)
    assert person.command().session(FLEET).key.line == first.key.line
    person.clock.sleep(1)
    second = person.command().session(FLEET)
    assert (person.signer.asked, second.key.line == first.key.line) == (2, False)


def test_it_is_renewed_within_a_long_command_too(person: Person) -> None:
    command = person.command()
    first = command.session(FLEET)
    person.clock.sleep(SESSION_S_MAX)
    assert command.session(FLEET).key.line != first.key.line


def test_a_clock_that_was_set_back_makes_a_new_one(person: Person) -> None:
    person.command().session(FLEET)
    person.clock = VirtualClock(NOW_S - 3600)
    made = person.command().session(FLEET)
    assert person.signer.asked == 2
    verify_session(made.certificate, made.key.line, FLEET, TRUST, person.clock.now_s())


def test_a_forgotten_one_is_made_anew(person: Person) -> None:
    command = person.command()
    first = command.session(FLEET)
    command.forget(FLEET)
    assert command.session(FLEET).key.line != first.key.line
    assert person.command().session(FLEET).key.line != first.key.line
    assert person.signer.asked == 2


def test_only_its_owner_may_read_it(person: Person) -> None:
    person.command().session(FLEET)
    (kept,) = person.folder.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert person.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff", b"[" * 10_000, b"x" * 100_000, b'{"key":"","certificate":{}}']
)
def test_a_spoilt_file_costs_a_signature_and_nothing_else(content: bytes, person: Person) -> None:
    first = person.command().session(FLEET)
    (kept,) = person.folder.iterdir()
    kept.write_bytes(content)
    assert person.command().session(FLEET).key.line != first.key.line
    assert person.signer.asked == 2


def test_a_file_of_another_fleet_is_not_taken(person: Person) -> None:
    person.command().session(FLEET)
    (kept,) = person.folder.iterdir()
    content = kept.read_bytes()
    person.command().session(OTHER_FLEET)
    (other,) = set(person.folder.iterdir()) - {kept}
    other.write_bytes(content)
    made = person.command().session(OTHER_FLEET)
    verify_session(made.certificate, made.key.line, OTHER_FLEET, TRUST, NOW_S)


def test_a_home_that_cannot_be_written_costs_a_signature_per_command(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file where a directory should be")
    person = Person(tmp_path)
    for count in (1, 2):
        command = person.command()
        command.session(FLEET), command.session(FLEET)
        assert person.signer.asked == count


def test_a_person_who_does_not_sign_gets_none(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    def declined(message: bytes, namespace: str) -> str:
        raise NotPermitted("3 wrong passphrases", remedy="find the right one")

    monkeypatch.setattr(person.signer, "sign", declined)
    with pytest.raises(NotPermitted):
        person.command().session(FLEET)
    assert not person.folder.exists() or not os.listdir(person.folder)
