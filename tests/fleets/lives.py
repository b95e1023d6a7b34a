"""Lives of agents in tests, and pulses for orders to name.

The agents of `tests/fleets/agents.py` have the same life at every start, so that tests of restarts show what protects
beside it (counter, nonce, journal). Tests of lives give each start its own: `own_lives` of a machine.
"""

from hashlib import sha256

import msgspec

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.model.report import PULSE_NAMESPACE, Pulse, SignedPulse
from holdfast.trust import own_signature


def life_of(node: str, start: int = 0) -> str:
    return sha256(f"life {start} of {node}".encode()).hexdigest()[:32]


class LifeRandom:
    """An agent draws its life first. The other tokens are those of `SeededRandom`."""

    def __init__(self, seed: str, life: str) -> None:
        self._rest = SeededRandom(seed)
        self._life = life

    def token(self, size_bytes: int) -> bytes:
        life, self._life = self._life, ""
        return bytes.fromhex(life)[:size_bytes] if life else self._rest.token(size_bytes)


def pulse_of(
    fleet: str, node: str, key: MemoryIdentityKey, at_s: float, life: str = "", counter: int = 0
) -> SignedPulse:
    content = msgspec.json.encode(Pulse(fleet, node, 1, at_s, counter=counter, life=life or life_of(node)))
    return SignedPulse(content, own_signature.armoured(key, content, PULSE_NAMESPACE))
