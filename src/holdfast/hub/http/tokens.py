"""The tokens of a hub: made, listed, revoked, and recognised. Keeps hashes only; shows a secret once."""

from collections.abc import Sequence

import msgspec

from holdfast.errors import Conflict, Invalid
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.principal import Principal
from holdfast.model.token import EXPIRES_S_MAX, NewToken, StoredToken, Token
from holdfast.ports.clock import Clock
from holdfast.ports.ledger_store import LedgerStore, Transaction
from holdfast.ports.random_source import RandomSource
from holdfast.trust import tokens

TOKENS_MAX = 1000
KEPT_S = 30 * 24 * 3600  # how long an ended token is still listed


class Tokens:
    def __init__(self, store: LedgerStore, clock: Clock, random: RandomSource) -> None:
        self._store = store
        self._clock = clock
        self._random = random

    def create(self, by: Principal, name: str, expires_in_s: int) -> NewToken:
        """`by` is the authenticated caller."""
        if not 0 < expires_in_s <= EXPIRES_S_MAX:
            raise Invalid(
                f"a token lives between one second and {EXPIRES_S_MAX // 86400} days",
                remedy="holdfast token create --expires 30d",
            )
        now_s = int(self._clock.now_s())
        old = self._forgettable(now_s)
        token_id, text = tokens.mint(self._random.token(tokens.ID_BYTES + tokens.SECRET_BYTES))
        made = StoredToken(
            token_id, name or token_id, "read", str(by), now_s, now_s + expires_in_s, hash=tokens.digest(text)
        )
        key = keys.token(token_id)
        self._store.commit(Transaction(expect={key: 0}, put={key: canonical.encode(made)}, delete=old))
        return NewToken(shown(made), text)

    def list(self) -> tuple[Token, ...]:
        """Newest first, without what is secret."""
        found = [shown(token) for _, token in self._all()]
        return tuple(sorted(found, key=lambda token: (-token.created_s, token.id)))

    def revoke(self, token_id: str) -> Token:
        """Refused from the next request on; revoking twice changes nothing."""
        record = self._store.get(keys.token(token_id)) if token_id.isalnum() and len(token_id) <= 64 else None
        if record is None:
            raise Invalid(
                f"there is no token {token_id[:64]!r}", remedy="`holdfast token list` shows them", code="not_found"
            )
        found = _decode(record.value)
        if found.revoked_s:
            return shown(found)
        ended = msgspec.structs.replace(found, revoked_s=int(self._clock.now_s()))
        key = keys.token(token_id)
        self._store.commit(Transaction(expect={key: record.modified}, put={key: canonical.encode(ended)}))
        return shown(ended)

    def principal_of(self, text: str) -> Principal:
        """The principal of this token; raises Unauthenticated."""
        record = self._store.get(keys.token(tokens.id_of(text)))
        return tokens.check(_decode(record.value) if record else None, text, self._clock.now_s())

    def _all(self) -> Sequence[tuple[str, StoredToken]]:
        return [(record.key, _decode(record.value)) for record in self._store.scan(keys.TOKENS)]

    def _forgettable(self, now_s: int) -> Sequence[str]:
        found = self._all()
        over = [key for key, token in found if (token.revoked_s or token.expires_s) < now_s - KEPT_S]
        if len(found) - len(over) >= TOKENS_MAX:
            raise Conflict(
                f"there are {TOKENS_MAX} tokens already",
                remedy="revoke some (`holdfast token revoke ID`); ended ones are forgotten after 30 days",
                code="too_many_tokens",
            )
        return over


def shown(token: Token) -> Token:
    return Token(*(getattr(token, name) for name in Token.__struct_fields__))


def _decode(value: bytes) -> StoredToken:
    return canonical.decode(value, StoredToken, "a token")
