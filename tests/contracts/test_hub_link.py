"""Every way to a hub gives the same answers: in this process, on a file, and over HTTP (O-27, O-41)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.hub_link.http.exchange import Answer, Line
from holdfast.adapters.hub_link.http.hub import HttpHub
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.errors import (
    Conflict,
    Corrupt,
    HoldfastError,
    Invalid,
    NotPermitted,
    SignatureRequired,
)
from holdfast.hub.ledger.revisions import Revisions
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.observation import NodeObservation
from holdfast.model.revision import Candidate, digest_of, encode_header
from holdfast.ports.hub_link import HubLink
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.wire import codec, messages
from holdfast.wire.http_signature import TARGET_CHARS_MAX
from tests.fleets.build import ALICE, START_S, commit, mailbox, next_candidate, operator_signer, sign, small_fleet
from tests.fleets.serving import served

KINDS = ("memory", "sqlite", "http", "http on sqlite")


class Place:
    """A hub as its caller sees it, with the store behind it for causing damage, and a twin in this process."""

    def __init__(self, kind: str, folder: Path, closing: ExitStack) -> None:
        clock = VirtualClock(START_S)
        self.store: LedgerStore = MemoryStore()
        if "sqlite" in kind:
            self.store = SqliteStore.open(str(folder / "ledger.db"), create=True)
        closing.callback(self.store.close)
        self.inside = mailbox(self.store, clock)
        self.hub: HubLink = self.inside
        if "http" in kind:
            far: HttpHub = closing.enter_context(served(self.inside)).link()
            closing.callback(far.close)
            self.hub = far

    def grow(self, revisions: int) -> None:
        for version in range(1, revisions + 1):
            commit(self.inside, small_fleet({"web": version, "api": 1}, nodes=("w1", "w2")))

    def lose(self, digest: str) -> None:
        self.store.commit(Transaction(expect={}, put={}, drop_blobs=(digest,)))


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as closing:
        yield Place(request.param, tmp_path, closing)


def same(ask: Callable[[HubLink], object], place: Place) -> object:
    """The answer, which is also what a mailbox in this process says, to the byte."""
    answer = ask(place.hub)
    assert canonical.encode(answer) == canonical.encode(ask(place.inside))
    return answer


def served_part(hub: HubLink) -> object:
    """A running hub adds what it sees of its nodes to the findings of the ledger."""
    return replace(hub.status(), findings=())


def refusal(ask: Callable[[HubLink], object], place: Place, family: type[HoldfastError]) -> HoldfastError:
    """The refusal, which is also the one of a mailbox in this process, to the letter."""
    said = []
    for hub in (place.hub, place.inside):
        with pytest.raises(family) as raised:
            ask(hub)
        said.append(raised.value)
    far, near = said
    words = far.said or (far.message, far.remedy)  # over HTTP it is marked as the hub's (X20)
    assert (far.code, *words, far.exit_code) == (near.code, near.message, near.remedy, near.exit_code)
    return far


# ---- reading


def test_an_empty_hub_says_so(place: Place) -> None:
    assert place.hub.applied() is None
    assert same(lambda hub: list(hub.records(0, 10)), place) == []
    assert same(lambda hub: list(hub.links(1, 0)), place) == []
    assert same(lambda hub: dict(hub.observations()), place) == {}
    assert same(lambda hub: list(hub.damaged()), place) == []
    same(served_part, place)
    if isinstance(place.hub, HttpHub):  # who founds a fleet has nothing to read yet
        with pytest.raises(NotPermitted):
            place.hub.blob("0" * 64)
    else:
        assert place.hub.blob("0" * 64) is None


def test_the_applied_revision_is_the_same_byte_for_byte(place: Place) -> None:
    place.grow(3)
    far, near = place.hub.applied(), place.inside.applied()
    assert far is not None
    assert near is not None
    assert (far.head, far.header, far.table, far.trust) == (near.head, near.header, near.table, near.trust)
    assert digest_of(encode_header(far.header)) == far.head.digest
    for entry in near.table.entries.values():
        assert far.contents[entry.digest] == near.contents[entry.digest]
    assert far.contents.get("0" * 64) is None
    assert {entry.digest for entry in near.table.entries.values()} <= set(far.contents)


def test_history_is_given_from_any_number_downwards(place: Place) -> None:
    place.grow(5)
    for newest, limit in ((0, 10), (0, 2), (3, 2), (1, 1), (99, 2), (4, 1_000), (0, 0)):
        same(lambda hub, n=newest, m=limit: list(hub.records(n, m)), place)  # type: ignore[misc]
    assert [record.number for record in place.hub.records(4, 2)] == [4, 3]


def test_links_are_given_in_rising_order(place: Place) -> None:
    place.grow(4)
    for first, last in ((1, 4), (2, 3), (4, 4), (3, 2), (0, 2), (-5, 1)):
        same(lambda hub, f=first, t=last: list(hub.links(f, t)), place)  # type: ignore[misc]
    assert [link.header.number for link in place.hub.links(2, 4)] == [2, 3, 4]


def test_a_revision_that_was_never_made_is_not_found_and_is_no_damage(place: Place) -> None:
    place.grow(2)
    assert refusal(lambda hub: hub.links(1, 3), place, Invalid).code == "not_found"


def test_observations_are_those_in_the_ledger(place: Place) -> None:
    seen = NodeObservation("w1", "healthy", 3, 12.5)
    place.store.commit(Transaction(expect={}, put={keys.observation("w1"): canonical.encode(seen)}))
    assert same(lambda hub: dict(hub.observations()), place) == {"w1": seen}


def test_the_status_is_the_same(place: Place) -> None:
    place.grow(2)
    same(served_part, place)
    assert {f.code for f in place.inside.status().findings} <= {f.code for f in place.hub.status().findings}
    assert place.hub.status().resources == {"fleet": 1, "node": 2, "service": 2, "trust": 1}


# ---- committing


def test_a_commit_moves_the_head_and_is_served_at_once(place: Place) -> None:
    place.grow(1)
    head = place.hub.commit(next_candidate(small_fleet({"web": 7}), place.hub.applied()))
    applied = place.hub.applied()
    assert applied is not None
    assert applied.head == head == place.hub.status().head
    assert head.number == 2
    assert mailbox(place.store).applied() == replace(applied, contents=mailbox(place.store).applied().contents)  # type: ignore[union-attr]


def test_a_second_revision_on_the_same_base_is_a_conflict(place: Place) -> None:
    place.grow(1)
    late = next_candidate(small_fleet({"web": 8}), place.hub.applied())
    place.hub.commit(next_candidate(small_fleet({"web": 7}), place.hub.applied()))
    assert refusal(lambda hub: hub.commit(late), place, Conflict).code == "stale_base"


def test_a_revision_without_a_signature_needs_one_and_says_what_to_sign(place: Place) -> None:
    place.grow(1)
    unsigned = replace(next_candidate(small_fleet({"web": 7}), place.hub.applied()), signatures=())
    said = refusal(lambda hub: hub.commit(unsigned), place, SignatureRequired)
    assert said.code == "signature_required"
    assert digest_of(unsigned.header) in said.message


def test_a_stranger_is_not_permitted(place: Place) -> None:
    place.grow(1)
    _, mallory = operator_signer("mallory")
    forged = sign(next_candidate(small_fleet({"web": 7}), place.hub.applied()), mallory)
    assert refusal(lambda hub: hub.commit(forged), place, NotPermitted).code == "unknown_signer"


def test_bytes_that_are_not_what_they_claim_are_an_integrity_failure(place: Place) -> None:
    place.grow(1)
    good = next_candidate(small_fleet({"web": 7}), place.hub.applied())
    for broken in (
        replace(good, header=good.header + b" "),
        replace(good, header=b"\xff"),
        replace(good, header=good.header.replace(b'"format":1', b'"format":2')),
        replace(good, table=b"{}"),
        replace(good, blobs=dict.fromkeys(good.blobs, b"else")),
        replace(good, blobs={}),
    ):
        refusal(lambda hub, bad=broken: hub.commit(bad), place, Corrupt)  # type: ignore[misc]
    assert place.hub.status().head.number == 1


def test_a_refused_commit_changes_no_answer(place: Place) -> None:
    place.grow(2)
    before = canonical.encode([place.hub.status(), list(place.hub.records(0, 9)), list(place.hub.links(1, 2))])
    _, mallory = operator_signer("mallory")
    with pytest.raises(NotPermitted):
        place.hub.commit(sign(next_candidate(small_fleet({"web": 9}), place.hub.applied()), mallory))
    after = canonical.encode([place.hub.status(), list(place.hub.records(0, 9)), list(place.hub.links(1, 2))])
    assert after == before


# ---- damage


def test_lost_content_is_named_and_mended(place: Place) -> None:
    place.grow(1)
    applied = place.inside.applied()
    assert applied is not None
    digest = applied.table.entries["service.web"].digest
    content = applied.contents[digest]
    place.lose(digest)
    assert same(lambda hub: list(hub.damaged()), place) == [digest]
    assert place.hub.blob(digest) is None
    assert place.hub.mend({digest: content, "0" * 64: b"not asked for"}) == 1
    assert place.hub.blob(digest) == content
    assert same(lambda hub: list(hub.damaged()), place) == []


def test_a_false_mend_is_refused(place: Place) -> None:
    place.grow(1)
    applied = place.inside.applied()
    assert applied is not None
    digest = applied.table.entries["service.web"].digest
    place.lose(digest)
    assert refusal(lambda hub: hub.mend({digest: b"something else"}), place, Corrupt).code == "blob_damaged"


def test_a_gap_in_the_chain_is_said_to_be_damage(place: Place) -> None:
    place.grow(3)
    place.store.commit(Transaction(expect={}, put={}, delete=(keys.revision(2),)))
    assert refusal(lambda hub: hub.links(1, 3), place, Corrupt).code == "chain_broken"
    assert refusal(lambda hub: hub.records(0, 9), place, Corrupt).code == "chain_broken"


def test_the_operators_of_the_fleet_are_the_ones_who_signed(place: Place) -> None:
    place.grow(1)
    assert [signer.operator for signer in place.hub.records(0, 1)[0].approval.signers] == [ALICE.name]


def test_a_mailbox_is_a_hub_link() -> None:
    hub: HubLink = mailbox()
    assert isinstance(hub, Revisions)
    assert isinstance(next_candidate(small_fleet(), None), Candidate)


class OneAtATime(HttpHub):
    """An older hub has no such path."""

    def ask(self, method: str, target: str, body: bytes | None) -> Answer:
        return super().ask(method, target.replace("/v1/contents", "/v1/no-contents"), body)


def counted(far: HttpHub) -> list[str]:
    """The targets of its requests from now on."""
    targets: list[str] = []
    ask = far.ask

    def noted(method: str, target: str, body: bytes | None) -> Answer:
        targets.append(target)
        return ask(method, target, body)

    far.ask = noted  # type: ignore[method-assign]
    return targets


@pytest.fixture
def many(tmp_path: Path) -> Iterator[tuple[Place, HttpHub]]:
    with ExitStack() as closing:
        place = Place("http", tmp_path, closing)
        commit(place.inside, small_fleet({f"s{number}": number for number in range(1, 301)}))
        assert isinstance(place.hub, HttpHub)
        yield place, place.hub


def services(hub: HttpHub) -> list[str]:
    applied = hub.applied()
    assert applied is not None
    names = [address.removeprefix("service.") for address in applied.table.entries if address.startswith("service.")]
    return [canonical.digest(canonical.encode(applied.service(name))) for name in names]


def test_a_command_that_reads_every_service_makes_few_requests(many: tuple[Place, HttpHub]) -> None:
    targets = counted(many[1])
    found = services(many[1])
    assert len(set(found)) == 300
    assert len(targets) <= 15 and all(len(target) < TARGET_CHARS_MAX for target in targets)


def test_a_command_that_reads_one_service_asks_for_nothing_else(many: tuple[Place, HttpHub]) -> None:
    applied = many[1].applied()
    assert applied is not None
    targets = counted(many[1])
    applied.service("s7")
    applied.service("s7")
    assert targets == [f"/v1/blobs/{applied.table.entries['service.s7'].digest}"]


def test_a_hub_that_gives_one_content_at_a_time_is_asked_once_for_more(many: tuple[Place, HttpHub]) -> None:
    many[1].__class__ = OneAtATime
    targets = counted(many[1])
    assert len(set(services(many[1]))) == 300
    assert len(targets) == 302, "the revision, one question for more, and each content"


@pytest.mark.parametrize("ahead", [False, True])
def test_after_an_interrupt_no_answer_is_taken_for_that_of_the_next_request_n18(
    many: tuple[Place, HttpHub], ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while a command waits: the same connection is used afterwards, and the answer is still on its way."""
    hub = many[1]
    head, seen = hub.status().head, hub.observations()
    if ahead:
        hub.expect_plan()
    receive = Line.receive

    def interrupted(*_: object, **__: object) -> Answer:
        raise KeyboardInterrupt

    monkeypatch.setattr(Line, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hub.applied()
    monkeypatch.setattr(Line, "receive", receive)
    assert hub.observations() == seen  # the next of those that were asked for ahead
    assert hub.status().head == head


def test_a_lost_content_is_named_also_when_several_are_asked_for(many: tuple[Place, HttpHub]) -> None:
    place, far = many
    applied = far.applied()
    assert applied is not None
    lost = applied.table.entries["service.s250"].digest
    place.lose(lost)
    assert set(far.blobs([lost, applied.table.entries["service.s1"].digest]) or {}) == {
        applied.table.entries["service.s1"].digest
    }
    with pytest.raises(Corrupt) as trouble:
        services(far)
    assert trouble.value.code == "blob_missing" and "s250" in trouble.value.message


def test_a_page_that_does_not_match_its_digests_is_a_lie(many: tuple[Place, HttpHub]) -> None:
    _, far = many
    page = codec.write(messages.ContentsPage({"0" * 64: b"something else"}))
    far.ask = lambda method, target, body: Answer(200, {}, page)  # type: ignore[method-assign]
    with pytest.raises(Corrupt) as trouble:
        far.blobs(["0" * 64])
    assert trouble.value.code == "hub_lies"
