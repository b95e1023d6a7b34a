"""X05: an order runs in the life it names, and a node's own pulses show that its state was put back."""

from hashlib import sha256

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.errors import Corrupt, NotPermitted
from holdfast.model.report import Pulse, SignedPulse
from holdfast.trust import lives
from holdfast.trust.lives import LIVES_KEPT, Life, Lives
from tests.fleets.lives import life_of, pulse_of
from tests.fleets.orders import FLEET, NODE, NOW_S, purge

KEY, OTHER = (MemoryIdentityKey(sha256(word).digest()) for word in (b"key of w1", b"another key"))
ONE, TWO, THREE = (life_of(NODE, start) for start in (1, 2, 3))


def own(life: str = ONE, counter: int = 6, at_s: float = NOW_S, key: MemoryIdentityKey = KEY) -> SignedPulse:
    return pulse_of(FLEET, NODE, key, at_s, life, counter)


def pulse(**changed: object) -> Pulse:
    return replace(msgspec.json.decode(own().pulse, type=Pulse), **changed)


@pytest.mark.parametrize(
    ("life", "counter", "at_s", "known", "since_s", "is_set_back"),
    [
        (ONE, 6, NOW_S, (ONE,), 0.0, False),
        (ONE, 5, NOW_S, (ONE, TWO), 0.0, False),
        (ONE, 7, NOW_S, (ONE,), 0.0, True),
        (TWO, 6, NOW_S, (ONE,), 0.0, True),
        (TWO, 0, NOW_S, (), 0.0, True),
        (TWO, 6, NOW_S - 1, (THREE,), NOW_S, False),
        (TWO, 6, NOW_S, (THREE,), NOW_S, True),
        (TWO, 7, NOW_S - 1, (THREE,), NOW_S, True),
    ],
    ids=[
        "as new as the journal",
        "older than the journal",
        "a counter ahead of the journal",
        "a life that the journal does not know",
        "an empty journal",
        "a life from before the last resync",
        "a life since then",
        "a counter ahead, from before the last resync",
    ],
)
def test_a_pulse_that_the_journal_has_not_reached_proves_that_it_was_put_back(
    life: str, counter: int, at_s: float, known: tuple[str, ...], since_s: float, is_set_back: bool
) -> None:
    journal = Lives(tuple(Life(one, NOW_S) for one in known), since_s)
    found = lives.set_back(pulse(life=life, counter=counter, at_s=at_s), journal, 6)
    assert (found is not None) == is_set_back and (found is None or found.counter == counter)


def test_the_oldest_lives_are_forgotten_and_prove_nothing_then() -> None:
    journal = Lives()
    for number in range(LIVES_KEPT + 3):
        journal = journal.with_new(Life(f"{number:032x}", NOW_S + number))
    assert len(journal.known) == LIVES_KEPT and journal.since_s == NOW_S + 3
    forgotten = pulse(life=f"{1:032x}", at_s=NOW_S + 1.5)
    assert lives.set_back(forgotten, journal, 6) is None
    assert lives.set_back(replace(forgotten, at_s=NOW_S + 3), journal, 6) is not None


def test_a_resync_is_remembered_with_every_new_life() -> None:
    full = Lives()
    for number in range(LIVES_KEPT):
        full = full.with_new(Life(f"{number:032x}", NOW_S + number))
    assert full.since_s == 0.0, "nothing is forgotten yet"
    assert Lives((), NOW_S).with_new(Life(ONE, NOW_S + 5)).since_s == NOW_S
    later = replace(full, since_s=NOW_S + 10 * LIVES_KEPT).with_new(Life(ONE, NOW_S + 11 * LIVES_KEPT))
    assert later.since_s == NOW_S + 10 * LIVES_KEPT


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (own().pulse + b" " * lives.PULSE_BYTES_MAX, "longer than"),
        (b'{"fleet":"\xff"}', "cannot be read"),
        (b'{"more":' + b"[" * 8000, "cannot be read"),
        (pulse_of("e" * 64, NODE, KEY, NOW_S).pulse, "or of another fleet"),
        (pulse_of(FLEET, "w2", KEY, NOW_S).pulse, "is of 'w2'"),
    ],
    ids=["too long", "no text", "too deep", "another fleet", "another node"],
)
def test_a_pulse_that_is_none_of_this_node_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(Corrupt, match=why):
        lives.read(SignedPulse(text, ""), FLEET, NODE)


@pytest.mark.parametrize(
    ("action", "after_restart", "current", "code"),
    [
        ("purge", False, ONE, ""),
        ("purge", False, TWO, "other_life"),
        ("purge", True, TWO, "other_life"),
        ("restart", False, TWO, "other_life"),
        ("restart", True, TWO, ""),
    ],
)
def test_an_order_runs_in_the_life_it_names(action: str, after_restart: bool, current: str, code: str) -> None:
    found = lives.refusal(purge(action=action, after_restart=after_restart), pulse(), current)
    assert (found.code if found is not None else "") == code


def test_a_pulse_counts_only_if_the_node_signed_it() -> None:
    assert lives.own(own(), FLEET, NODE, KEY.line).life == ONE
    with pytest.raises(NotPermitted, match="not signed by the key of w1"):
        lives.own(own(key=OTHER), FLEET, NODE, KEY.line)
    with pytest.raises(NotPermitted):
        lives.own(replace(own(), pulse=own(counter=7).pulse), FLEET, NODE, KEY.line)
    lifeless = replace(own(), pulse=own().pulse.replace(b'"life"', b'"lief"'))
    for wrong in (None, replace(own(), pulse=b"{}"), pulse_of(FLEET, "w2", KEY, NOW_S), lifeless):
        with pytest.raises(Corrupt):
            lives.own(wrong, FLEET, NODE, KEY.line)
