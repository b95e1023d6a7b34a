"""Sessions in memory, for tests: created once per fleet, valid from the test clock's start."""

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.model import canonical, ssh_key
from holdfast.model.session import NAMESPACE, SESSION_S_MAX, SessionCertificate, SessionGrant
from holdfast.ports.clock import Clock
from holdfast.ports.random_source import RandomSource
from holdfast.ports.sessions import Session
from holdfast.ports.signer import Signer


class MemorySessions:
    def __init__(self, signer: Signer, clock: Clock, random: RandomSource) -> None:
        self._signer = signer
        self._clock = clock
        self._random = random
        self._held: dict[str, Session] = {}

    def session(self, fleet: str) -> Session:
        if fleet not in self._held:
            key, now_s = MemoryIdentityKey(self._random.token(32)), int(self._clock.now_s())
            operator = ssh_key.line(self._signer.public_key)
            grant = canonical.encode(SessionGrant(fleet, operator, key.line, now_s, now_s + SESSION_S_MAX))
            self._held[fleet] = Session(key, SessionCertificate(grant, self._signer.sign(grant, NAMESPACE)))
        return self._held[fleet]

    def forget(self, fleet: str) -> None:
        self._held.pop(fleet, None)
