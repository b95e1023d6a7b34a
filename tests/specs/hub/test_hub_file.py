"""The file of a hub has its private key: only operators who may sign a restore of all can open it (ADR 0050)."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.high_water.memory import MemoryHighWater
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.errors import Conflict, Corrupt
from holdfast.hub.file import making, restoring
from holdfast.hub.file.making import Made
from holdfast.hub.ledger import reading
from holdfast.model.fleet import Operator
from holdfast.model.hub_file import FORMAT, About
from holdfast.model.ids import Digest
from holdfast.ports.ledger_store import Transaction
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


# ---- before it becomes a hub


def examined(store: MemoryStore, about: About, fleet: str, key: str | None = HUB_KEY) -> restoring.Examined:
    return restoring.examined(store, MemoryHighWater(), about, Digest(fleet), key, "/new")


def hub_of_one() -> tuple[MemoryStore, About]:
    store = MemoryStore()
    commit(mailbox(store), small_fleet(operators=operators()))
    applied = reading.load(store).applied
    assert applied is not None
    return store, About(FORMAT, applied.fleet_id, applied.head, 0, HUB_KEY, 1_800_000_000, "1", {})


def test_any_person_can_seal_a_file_so_what_is_in_it_must_be_this_fleet_and_what_it_says() -> None:
    store, about = hub_of_one()
    assert examined(store, about, about.fleet).revisions == 1
    here, nowhere = about.fleet, "0" * 64
    attempts: tuple[tuple[About, str, str | None], ...] = (
        (about, nowhere, HUB_KEY),
        (replace(about, fleet=nowhere), here, HUB_KEY),
        (replace(about, fleet=nowhere), nowhere, HUB_KEY),
        (about, here, None),
        (replace(about, hub_key="ssh-ed25519 another"), here, HUB_KEY),
        (replace(about, head=replace(about.head, number=9)), here, HUB_KEY),
    )
    for said, fleet, key in attempts:
        with pytest.raises(Corrupt):
            examined(store, said, fleet, key)


def test_a_ledger_in_which_something_is_missing_becomes_no_hub() -> None:
    whole, about = hub_of_one()
    blobs = {digest: whole.blob(digest) for digest in list(whole.blob_digests())[1:]}
    store = MemoryStore()
    put = {one.key: one.value for one in whole.scan("")}
    store.commit(Transaction(expect={}, put=put, blobs={digest: text for digest, text in blobs.items() if text}))
    with pytest.raises(Corrupt):
        examined(store, about, about.fleet)
