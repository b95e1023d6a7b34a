"""Authenticate a person's command to a hub: a session, a signature per request, and what to do after a 401."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.adapters.http_client.signing import Signing
from holdfast.errors import Corrupt, HoldfastError, Invalid, Unauthenticated
from holdfast.model import ssh_key
from holdfast.wire import codec, faults, http_signature, session_header

if TYPE_CHECKING:
    from holdfast.adapters.hub_link.http.exchange import Answer
    from holdfast.ports.clock import Clock
    from holdfast.ports.random_source import RandomSource
    from holdfast.ports.sessions import Sessions

CLOCK_SKEW, OTHER_FLEET = "clock_skew", "other_fleet"
SPENT = frozenset({"session_expired", "session_refused", "session_early"})


class Visit:
    """`fleet` is "" as long as none is known."""

    def __init__(self, sessions: Sessions, clock: Clock, random: RandomSource, fleet: str) -> None:
        self.fleet = fleet
        self._sessions = sessions
        self._clock = clock
        self._random = random
        self._peer = ""
        self._nonce = ""
        self._learnt = False  # once is enough: a hub that always refuses must not keep us asking

    def prepare(self) -> None:
        self._sessions.session(self.fleet)

    def signed(self, peer: str, method: str, target: str, body: bytes | None) -> dict[str, str]:
        """The headers of one request to the hub with this key; every call has a nonce of its own."""
        if not peer:
            raise Invalid(
                "the hub's certificate does not carry a key that requests can be addressed to",
                remedy='write hub_key = "ssh-ed25519 …" into [fleet] of fleet.toml, as '
                "`holdfast hub check` prints it on the hub's machine",
                code="hub_key_unknown",
            )
        session = self._sessions.session(self.fleet)
        self._peer = peer
        to = ssh_key.fingerprint(ssh_key.parse(peer))
        made = Signing(session.key, self._clock, self._random).sign(method, target, body, fleet=self.fleet, to=to)
        self._nonce = made.nonce
        return made.headers | {session_header.HEADER: session_header.write(session.certificate)}

    def mended(self, answer: Answer) -> bool:
        """True if the reason for the 401 is corrected, so that the same request may be sent once more."""
        code = _fault(answer).code
        if self._learnt or code not in SPENT | {OTHER_FLEET}:
            return False
        self._learnt = True
        if code == OTHER_FLEET:
            # A fleet id is no secret and a request is bound to this one hub, so believing it gives nothing away;
            # whether it is the fleet we remember is checked with what it has applied.
            said = answer.headers.get(http_signature.FLEET.lower(), "")
            if not http_signature.is_fleet(said) or said.replace(http_signature.NO_FLEET, "") == self.fleet:
                return False
            self.fleet = said.replace(http_signature.NO_FLEET, "")
        else:
            self._sessions.forget(self.fleet)
        return True

    def check_clock(self, answer: Answer) -> None:
        """A hub that finds this clock wrong proves its own time. Raises with both times, or that it proves none."""
        if answer.status != 401 or _fault(answer).code != CLOCK_SKEW:
            return
        try:
            hub_s = http_signature.verify_response(answer.status, answer.headers, self._peer, self._nonce)
        except HoldfastError as trouble:
            raise Corrupt(
                f"the hub says that this machine's clock is wrong, and does not prove its own: {trouble.message}",
                remedy="compare both clocks (date -u), and look at the machine the hub runs on",
                code="hub_lies",
            ) from trouble
        here_s = int(self._clock.now_s())
        off_s = here_s - hub_s
        raise Unauthenticated(
            f"the clocks differ by {abs(off_s):,} s: this machine says {_utc(here_s)}, the hub says {_utc(hub_s)}; "
            f"allowed are {http_signature.WINDOW_S} s",
            remedy="set the clock of the machine that is wrong (`timedatectl set-ntp true`), then try again",
            code=CLOCK_SKEW,
        )


def _fault(answer: Answer) -> faults.Fault:
    try:
        return codec.read(answer.body, faults.Fault)
    except Invalid:
        return faults.Fault("", "", "")


def _utc(seconds: int) -> str:
    import time

    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, ValueError):
        return str(seconds)
