"""The keys of a service's archives: whom each is sealed to, when the next one begins, and that none is used unnoted."""

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.identities import MemoryIdentities
from holdfast.adapters.sealing.memory import MemoryOpener, MemorySealer
from holdfast.agent.backups.generations import Generations
from holdfast.ports.sealing import CannotOpen
from tests.fleets.desks import key_of

FLEET, W1 = "f" * 64, key_of("w1").line
ANN, BOB = (MemoryIdentities(SeededRandom(name)).fresh().recipient for name in ("ann", "bob"))


def generations(facts: MemoryJournal) -> Generations:
    random = SeededRandom("generations")
    return Generations(
        facts=facts,
        sealer=MemorySealer(random),
        opener=MemoryOpener(W1),
        keys=MemoryIdentities(random),
        fleet=FLEET,
        line=W1,
    )


def readers(sealed: bytes) -> set[str]:
    found = set()
    for one in (ANN, BOB, W1, key_of("w2").line):
        try:
            MemoryOpener(one).open(sealed)
        except CannotOpen:
            continue
        found.add(one)
    return found


def test_a_key_is_for_the_operators_and_the_node_and_an_operator_who_is_gone_gets_no_later_one() -> None:
    known = generations(MemoryJournal())
    first = known.current("web", frozenset({ANN}))
    assert readers(first.key) == {ANN, W1} and known.current("web", frozenset({ANN})) == first
    wider = known.current("web", frozenset({ANN, BOB}))
    assert (wider.number, wider.recipient) == (first.number, first.recipient), "what was packed stays readable"
    assert readers(wider.key) == {ANN, BOB, W1}
    later = known.current("web", frozenset({BOB}))
    assert later.number == 2 and later.recipient != first.recipient and readers(later.key) == {BOB, W1}
    assert known.opened(later.key, "web", 2).identity != known.opened(first.key, "web", 1).identity


def test_a_key_is_noted_before_it_is_used_and_the_same_one_after_a_restart() -> None:
    facts = MemoryJournal()
    first = generations(facts).current("web", frozenset({ANN}))
    assert generations(facts).current("web", frozenset({ANN})) == first


def test_after_a_lost_journal_the_next_generation_begins() -> None:
    facts = MemoryJournal()
    assert generations(facts).current("web", frozenset(), 4).number == 5
    assert generations(facts).current("web", frozenset(), 5).number == 5
    assert generations(facts).current("web", frozenset(), 6).number == 7, "an older one is not gone back to"
