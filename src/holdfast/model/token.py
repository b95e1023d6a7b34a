"""A read-only token for curl and browsers, as stored. Does not contain the secret."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.model.revision import Count

Scope = Literal["read"]
TOKEN_ID_PATTERN = r"^[0-9a-f]{16}(?!\n)$"  # noqa: S105 (the form of a name)
TokenId = Annotated[str, Meta(pattern=TOKEN_ID_PATTERN)]
TokenName = Annotated[str, Meta(pattern=r"^[!-~][ -~]{0,63}(?!\n)$")]

DAY_S = 24 * 3600
EXPIRES_S_DEFAULT = 30 * DAY_S
EXPIRES_S_MAX = 366 * DAY_S


class Token(Struct, frozen=True):
    """What may be shown. `revoked_s` is 0 while it is not revoked."""

    id: TokenId
    name: TokenName
    scope: Scope
    created_by: str
    created_s: Count
    expires_s: Count
    revoked_s: Count = 0


class StoredToken(Token, frozen=True, kw_only=True):
    """`hash` is the sha256 of the whole text. The secret in it is random, so nothing slower is needed."""

    hash: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}(?!\n)$")]


class NewToken(Struct, frozen=True):
    """`text` exists only here and in the answer to the request."""

    token: Token
    text: str

    def __repr__(self) -> str:
        return f"NewToken({self.token.id})"
