"""What a node does next about one need of a service: ask for it, ask again, or wait. Pure."""

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.need import NeedPhase, Want

DOUBLINGS = 10  # pauses of 2, 4 … 1,024 s (F-31), then the last one
LONGEST_S = 1024.0
SPREAD = 0.2
RENEW_AT = 2 / 3  # of the ttl
RESTARTS_S = 600.0  # between two restarts of a service for one need


class Held(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """In the journal. The handle and the sealed values are written together: what can be delivered is also told (I-11).
    `wish` is the digest of what was asked for, "" once its provider took it back; `older` are handles that containers
    may still use."""

    provider: str
    type: str
    wish: str
    generation: int
    handle: str
    sealed: bytes
    got_s: float
    ttl_s: float = 0.0
    older: tuple[str, ...] = ()
    changed_s: float = 0.0  # when the service was last told of new values

    @property
    def handles(self) -> tuple[str, ...]:
        return (self.handle, *self.older)

    @property
    def until_s(self) -> float:
        return self.got_s + self.ttl_s if self.ttl_s else 0.0


class Tries(Struct, frozen=True):
    """Of a need that is asked for: how often in vain, when again, and what the last answer was."""

    count: int = 0
    next_s: float = 0.0
    since_s: float = 0.0
    why: str = ""
    is_refused: bool = False  # waiting does not help


NO_TRIES = Tries()


def digest_of(want: Want) -> str:
    return canonical.digest(canonical.encode(want))


def is_over(held: Held, now_s: float) -> bool:
    return held.ttl_s > 0 and now_s >= held.until_s


def is_due(held: Held | None, want: Want, now_s: float) -> bool:
    """Whether another generation is wanted now."""
    if held is None or held.wish != digest_of(want):
        return True
    return held.ttl_s > 0 and now_s >= held.got_s + held.ttl_s * RENEW_AT


def due_s(held: Held | None, want: Want, tries: Tries, now_s: float) -> float | None:
    """When to ask next; None: not before something changes."""
    if is_due(held, want, now_s):
        return max(tries.next_s, now_s)
    assert held is not None
    return held.got_s + held.ttl_s * RENEW_AT if held.ttl_s else None


def pause_s(count: int, chance: float) -> float:
    """After so many tries in vain; `chance` is between 0 and 1."""
    if count <= DOUBLINGS:
        return float(2**count)
    return LONGEST_S * (1 - SPREAD + 2 * SPREAD * chance)


def failed(tries: Tries, why: str, is_refused: bool, now_s: float, chance: float) -> Tries:
    count = tries.count + 1
    return Tries(count, now_s + pause_s(count, chance), tries.since_s or now_s, why, is_refused)


def taken_back(held: Held, gone: Collection[str], now_s: float, sweep_s: float) -> Held | None:
    """What becomes of one whose provider says that it does not have it: it is asked for again. Not sooner than a sweep
    after it was got: a provider that says so each time makes no more work than that."""
    if held.handle not in gone or not held.wish or abs(now_s - held.got_s) < sweep_s:
        return None
    return replace(held, wish="")


def phase(held: Held | None, want: Want, tries: Tries, now_s: float) -> NeedPhase:
    if held is not None and is_over(held, now_s):
        return "expired"
    if held is not None and held.wish == digest_of(want):
        return "fulfilled"
    return "failed" if tries.is_refused else "waiting"


def may_restart(held: Held, now_s: float) -> bool:
    """At most once for each need in 10 minutes. Values that come sooner are told of later."""
    return now_s - held.changed_s >= RESTARTS_S
