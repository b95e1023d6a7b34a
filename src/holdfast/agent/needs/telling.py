"""Tell each provider which of its handles this node holds: regularly, and when that changed.

The provider takes nothing back without such a statement. Only this node signs it."""

from typing import Protocol

import msgspec

from holdfast.agent.needs.books import Books
from holdfast.agent.needs.declared import Declarations
from holdfast.errors import Corrupt, HoldfastError
from holdfast.model.holdings import FORMAT, Holdings
from holdfast.ports.agent_link import AgentLink, Callee
from holdfast.ports.identity_key import IdentityKey
from holdfast.trust import holdings
from holdfast.wire.need_messages import Told

PATH = "/v1/holdings"

_told = msgspec.json.Decoder(Told).decode


class Life(Protocol):
    @property
    def is_sure(self) -> bool: ...

    def noted(self) -> str: ...


class Telling:
    """`life` names this start of the agent, and says whether the state of this node was put back."""

    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        link: AgentLink,
        key: IdentityKey,
        life: Life,
        fleet: str,
        node: str,
    ) -> None:
        self._declared = declared
        self._books = books
        self._link = link
        self._key = key
        self._life = life
        self._fleet = fleet
        self._node = node
        self._sequence = 0
        self._last: dict[str, tuple[int, tuple[str, ...]]] = {}  # what each provider confirmed that it knows

    def is_due(self, provider: str) -> bool:
        """It does not know yet what this node holds now."""
        return self._last.get(provider) != self._now(provider)

    def _now(self, provider: str) -> tuple[int, tuple[str, ...]]:
        return self._declared.revision, self._books.handles(provider)

    async def tell(self, provider: str) -> tuple[str, ...]:
        """Answers the handles that the provider does not have: it took them back."""
        self._sequence += 1
        revision, handles = now = self._now(provider)
        said = Holdings(
            format=FORMAT,
            fleet=self._fleet,
            node=self._node,
            provider=provider,
            life=self._life.noted(),
            sequence=self._sequence,
            revision=revision,
            is_sure=self._life.is_sure and self._declared.complete,
            handles=handles,
        )
        answer = _read(await self._link.post(self._callee(provider), PATH, holdings.sign(self._key, said)), provider)
        self._last[provider] = now
        if answer.grants == 0 and not handles and not self._is_asked(provider):
            self._books.part(provider)
            self._last.pop(provider, None)
        return answer.gone

    def _callee(self, provider: str) -> Callee:
        """As the revision says now; of one that it does not name any more, as it was."""
        try:
            return self._declared.callee(provider)
        except HoldfastError:
            return self._books.contact(provider)

    def _is_asked(self, provider: str) -> bool:
        return any(one.want.provider == provider for one in self._declared.found.values())


def _read(content: bytes, provider: str) -> Told:
    try:
        return _told(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Corrupt(
            f"{provider} did not answer as a provider does: {trouble}",
            remedy=f"look at its agent: holdfast node show {provider}",
            code="answer_refused",
        ) from trouble
