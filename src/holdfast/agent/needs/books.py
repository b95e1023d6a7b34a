"""What this node holds of its providers, durable: handles, sealed values, and whom to tell."""

import msgspec
from msgspec import Struct

from holdfast.ports.agent_link import Callee
from holdfast.ports.journal import Facts
from holdfast.ports.need_files import NeedKey
from holdfast.reconcile.needs import Held

HELD, PROVIDERS = "needs/held/", "needs/providers/"

_held = msgspec.json.Decoder(Held).decode


class Contact(Struct, frozen=True):
    """How a provider was reached last: it is told also when no revision names it any more."""

    address: str
    key: str
    issuer: bytes
    name: str
    fleet: str


_contact = msgspec.json.Decoder(Contact).decode


class Books:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.held: dict[NeedKey, Held] = {_key(name): _held(text) for name, text in facts.facts(HELD).items()}
        self._contacts = {n.removeprefix(PROVIDERS): _contact(text) for n, text in facts.facts(PROVIDERS).items()}

    def keep(self, key: NeedKey, held: Held) -> None:
        self._facts.set_aside(f"{HELD}{key[0]}/{key[1]}", msgspec.json.encode(held))
        self.held[key] = held

    def drop(self, key: NeedKey) -> None:
        self._facts.drop_fact(f"{HELD}{key[0]}/{key[1]}")
        self.held.pop(key, None)

    def handles(self, provider: str) -> tuple[str, ...]:
        return tuple(sorted(handle for one in self.held.values() if one.provider == provider for handle in one.handles))

    # ---- providers

    @property
    def providers(self) -> tuple[str, ...]:
        return tuple(sorted(self._contacts))

    def contact(self, provider: str) -> Callee:
        known = self._contacts[provider]
        return Callee(provider, known.address, known.key, known.issuer, known.name, known.fleet)

    def met(self, callee: Callee) -> None:
        """Before it is asked for the first time: what it makes is told to it from then on."""
        contact = Contact(callee.address, callee.key, callee.issuer, callee.name, callee.fleet)
        if self._contacts.get(callee.node) != contact:
            self._facts.set_aside(f"{PROVIDERS}{callee.node}", msgspec.json.encode(contact))
            self._contacts[callee.node] = contact

    def part(self, provider: str) -> None:
        """It has nothing of this node any more."""
        self._facts.drop_fact(f"{PROVIDERS}{provider}")
        self._contacts.pop(provider, None)


def _key(name: str) -> NeedKey:
    service, _, need = name.removeprefix(HELD).partition("/")
    return service, need
