"""How often a caller may ask: token buckets by identity or address. Pure; the clock is passed in, memory is bounded."""

from collections import OrderedDict

from msgspec import Struct

from holdfast.errors import Limited
from holdfast.model.cadence import NORMAL, Cadence
from holdfast.model.principal import Principal

TICK_S = 1e-6  # less is an error of addition, not a wait
KEYS_MAX = 10_000  # buckets kept; the one unused longest is dropped, and that caller begins with a full one again


class Rate(Struct, frozen=True):
    """`burst` at once, then one every `every_s`."""

    every_s: float
    burst: int


class Rates(Struct, frozen=True):
    register: Rate = Rate(60.0, 3)  # accepted ones only (M-28, D-08); an agent that is restarted registers again
    heartbeat: Rate = Rate(10.0, 3)  # M-28; a herd after a restart and a wake-up are no offence (C-02)
    poll: Rate = Rate(0.1, 30)  # apart from heartbeats, so that a limited heartbeat withholds no order (C-02)
    identity: Rate = Rate(0.02, 100)
    person: Rate = Rate(0.005, 1_000)  # an operator's command may walk a long history, content by content
    stranger: Rate = Rate(0.05, 60)  # by address: requests that prove nothing


def for_pace(cadence: Cadence) -> Rates:
    """A heartbeat may come three times as often as it should, a register half as often as a heartbeat."""
    plain = Rates()
    scale = cadence.heartbeat_s / NORMAL.heartbeat_s
    every_s = plain.register.every_s * scale, plain.heartbeat.every_s * scale
    return Rates(Rate(every_s[0], plain.register.burst), Rate(every_s[1], plain.heartbeat.burst))


class Buckets:
    """One bucket per key, all of one rate. A bucket is the moment at which it will be full again."""

    def __init__(self, rate: Rate, keys_max: int = KEYS_MAX) -> None:
        self._rate = rate
        self._keys_max = keys_max
        self._full_at_s: OrderedDict[str, float] = OrderedDict()

    def wait_s(self, key: str, now_s: float) -> float:
        """How long until there is one to take; 0 means now."""
        owed_s = self._full_at_s.get(key, now_s) - now_s
        spare_s = (self._rate.burst - 1) * self._rate.every_s
        wait_s = owed_s - spare_s
        return wait_s if wait_s > TICK_S else 0.0

    def take(self, key: str, now_s: float) -> None:
        """Never into debt by more than one: a caller that was refused waits no longer than another."""
        empty_s = now_s + self._rate.burst * self._rate.every_s
        self._full_at_s[key] = min(max(self._full_at_s.get(key, now_s), now_s) + self._rate.every_s, empty_s)
        self._full_at_s.move_to_end(key)
        while len(self._full_at_s) > self._keys_max:
            self._full_at_s.popitem(last=False)

    def __len__(self) -> int:
        return len(self._full_at_s)


class Limiter:
    """What each identity has used. For one event loop; `now_s` is monotonic."""

    def __init__(self, rates: Rates) -> None:
        self._registers = Buckets(rates.register)
        self._heartbeats = Buckets(rates.heartbeat)
        self._polls = Buckets(rates.poll)
        self._identities = Buckets(rates.identity)
        self._people = Buckets(rates.person)
        self._strangers = Buckets(rates.stranger)

    def request(self, principal: Principal, now_s: float) -> None:
        """Any request of an identified caller."""
        buckets = self._people if principal.kind in ("operator", "founder") else self._identities
        _spend(buckets, identity(principal), now_s, "requests")

    def stranger(self, address: str, now_s: float) -> None:
        """Before anything is spent on a request whose sender is not known yet."""
        _refuse(self._strangers, address, now_s, "requests without identity from this address")

    def was_stranger(self, address: str, now_s: float) -> None:
        self._strangers.take(address, now_s)

    def check_in(self, principal: Principal, heartbeat: bool, now_s: float) -> None:
        key = identity(principal)
        if heartbeat:
            _spend(self._heartbeats, key, now_s, "heartbeats")
        else:
            _spend(self._polls, key, now_s, "polls")

    def register(self, principal: Principal, now_s: float) -> None:
        """Raises if the key may not register now. `registered` is what counts."""
        _refuse(self._registers, principal.key, now_s, "registrations")  # its first one gives the key its name

    def registered(self, principal: Principal, now_s: float) -> None:
        self._registers.take(principal.key, now_s)


def identity(principal: Principal) -> str:
    """Two keys of one name share one allowance; a key that proved no name yet has its own."""
    return f"{principal.kind}:{principal.name or principal.key}"


def _spend(buckets: Buckets, key: str, now_s: float, what: str) -> None:
    _refuse(buckets, key, now_s, what)
    buckets.take(key, now_s)


def _refuse(buckets: Buckets, key: str, now_s: float, what: str) -> None:
    wait_s = buckets.wait_s(key, now_s)
    if wait_s > 0:
        raise Limited(
            f"too many {what}",
            remedy=f"wait {wait_s:.1f} s and try again; nothing was changed",
            retry_after_s=wait_s,
        )
