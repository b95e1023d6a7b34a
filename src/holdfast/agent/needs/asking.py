"""Ask a provider for one need. What it answers is not trusted: only the fields that the revision allows are used."""

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from holdfast.agent.needs.books import Books
from holdfast.agent.needs.declared import Declarations, Declared
from holdfast.errors import Corrupt, Failed, HoldfastError
from holdfast.model import canonical
from holdfast.ports.agent_link import AgentLink
from holdfast.ports.sealing import CannotOpen, Opener
from holdfast.reconcile.need_values import checked
from holdfast.reconcile.needs import Held, digest_of
from holdfast.wire.need_messages import TTL_S_MIN, Answer, Ask, Sealed

PLACE = ("host", "port")  # of the server, by the revision: no answer says where to connect

_answer = msgspec.json.Decoder(Answer).decode


class Asking:
    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        link: AgentLink,
        opener: Opener,
        now_s: Callable[[], float],
        fleet: str,
        node: str,
    ) -> None:
        self._declared = declared
        self._books = books
        self._link = link
        self._opener = opener
        self._now_s = now_s
        self._fleet = fleet
        self._node = node

    async def ask(self, declared: Declared) -> Held:
        """Kept before it is returned: the handle and the values together."""
        want, before = declared.want, self._books.held.get(declared.key)
        callee = self._declared.callee(want.provider)
        self._books.met(callee)
        is_same = before is not None and before.provider == want.provider
        has = before.generation if before is not None and is_same else 0
        body = canonical.encode(Ask(declared.service, declared.need.name, has, self._declared.revision))
        answer = _read(await self._link.post(callee, f"/v1/capabilities/{want.type}", body), declared, has)
        held = Held(
            provider=want.provider,
            type=want.type,
            wish=digest_of(want),
            generation=answer.generation,
            handle=answer.handle,
            sealed=answer.sealed,
            got_s=self._now_s(),
            ttl_s=answer.ttl_s,
            older=before.handles if before is not None else (),
            changed_s=before.changed_s if before is not None else 0.0,
        )
        self.values(declared, held)
        self._books.keep(declared.key, held)
        return held

    def values(self, declared: Declared, held: Held) -> Mapping[str, str]:
        try:
            inside = canonical.decode(self._opener.open(held.sealed), Sealed, "the answer")
        except CannotOpen:
            raise _bad(declared, "it is not sealed to this node") from None
        except Corrupt as trouble:
            raise _bad(declared, trouble.message) from trouble
        meant = (self._fleet, declared.service, declared.need.name, self._node, held.handle)
        if (inside.fleet, inside.service, inside.need, inside.node, inside.handle) != meant:
            raise _bad(declared, "what is sealed is for something else")
        try:
            values = checked(declared.want.type, declared.want.facts, inside.values)
        except HoldfastError as trouble:
            raise _bad(declared, trouble.message) from trouble
        return {**values, **{name: text for name, text in declared.want.facts.items() if name in PLACE}}

    def replaced(self, declared: Declared, held: Held) -> Held:
        """Containers use the new values: handles of the older ones are given back."""
        done = replace(held, older=(), changed_s=self._now_s())
        self._books.keep(declared.key, done)
        return done


def _read(content: bytes, declared: Declared, has: int) -> Answer:
    try:
        answer = _answer(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise _bad(declared, str(trouble)) from trouble
    if answer.generation <= has:
        raise _bad(declared, f"it gives generation {answer.generation} again")
    if 0 < answer.ttl_s < TTL_S_MIN:
        raise _bad(declared, f"it would end after {answer.ttl_s:.0f} s")
    return answer


def _bad(declared: Declared, why: str) -> Failed:
    return Failed(
        f"the answer of {declared.want.provider} to need {declared.need.name} of {declared.service} is refused: {why}",
        remedy=f"look at the agent of {declared.want.provider}: holdfast node show {declared.want.provider}",
        code="answer_refused",
    )
