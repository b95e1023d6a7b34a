"""The file of a hub has its private key: only operators who may sign a restore of all can open it (ADR 0050)."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.errors import Conflict, Corrupt
from holdfast.hub.file import making, restoring
from holdfast.hub.file.making import Made
from holdfast.model.fleet import Operator
from holdfast.model.hub_file import About
from tests.fleets.build import ALICE, commit, mailbox, operator_signer, small_fleet
from tests.fleets.sealing import person

HUB_KEY = "ssh-ed25519 of-the-hub"


def operators() -> tuple[Operator, ...]:
    """alice is of grade root; each of the others lacks something."""
    applying = operator_signer("applying", "apply")[0]
    scoped = operator_signer("scoped", "destroy", ("service.web",))[0]
    destroying, without = operator_signer("destroying", "destroy")[0], operator_signer("without", "destroy")[0]
    seen = (ALICE, applying, scoped, destroying)
    return (*(replace(one, recipient=person(one.name)) for one in seen), without)


class Sealed:
    """Of the ports that making needs, what it asks them for."""

    def __init__(self) -> None:
        self.recipients: list[str] = []

    @contextmanager
    def packed(self, state_dir: str, describe: Callable[[str, Any], About]) -> Iterator[IO[bytes]]:
        describe(state_dir, {})
        yield io.BytesIO(b"state")

    def stored(self, path: str, fill: Callable[[IO[bytes]], None]) -> int:
        fill(io.BytesIO())
        return 5

    def seal_stream(self, source: IO[bytes], into: IO[bytes], recipients: Sequence[str]) -> None:
        self.recipients = list(recipients)


def made(people: tuple[Operator, ...], ports: Sealed, key: str | None = HUB_KEY) -> Made:
    store = MemoryStore()
    commit(mailbox(store), small_fleet(operators=people))
    some: Any = ports
    return making.made(
        "/state",
        lambda about: "/file",
        files=some,
        reader=lambda folder: store,
        hub_key=lambda folder: key,
        sealer=some,
        now_s=1_800_000_000.0,
    )


def test_it_is_sealed_to_operators_of_grade_destroy_without_a_scope_and_to_no_other() -> None:
    ports, people = Sealed(), operators()
    found = made(people, ports)
    assert found.operators == ("alice", "destroying")
    assert ports.recipients == sorted((person("alice"), person("destroying")))


def test_without_such_an_operator_or_without_a_key_no_file_is_made() -> None:
    ports = Sealed()
    with pytest.raises(Conflict, match="no operator can open"):
        made((ALICE,), ports)
    with pytest.raises(Corrupt, match="no key"):
        made(operators(), ports, key=None)
    assert ports.recipients == []


def test_a_file_of_an_older_revision_is_told() -> None:
    head = made(operators(), Sealed()).about.head
    assert restoring.missed(head, replace(head, number=head.number + 3)) == 3
    assert restoring.missed(head, None) == 0 == restoring.missed(head, replace(head, number=0))
