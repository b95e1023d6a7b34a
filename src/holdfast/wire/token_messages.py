"""The messages of the hub's HTTP interface about tokens; the rules of messages.py hold. Values only."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.token import EXPIRES_S_DEFAULT, EXPIRES_S_MAX, Token
from holdfast.wire.messages import GENERATION, Wire


class TokenRequest(Struct, frozen=True):
    """Requests a read-only token. With `name` "", its id is its name."""

    name: Annotated[str, Meta(pattern=r"^([!-~][ -~]{0,63})?(?!\n)$")] = ""
    expires_in_s: Annotated[int, Meta(ge=1, le=EXPIRES_S_MAX)] = EXPIRES_S_DEFAULT
    wire: Wire = GENERATION


class TokenMade(Struct, frozen=True):
    """The only answer that contains `text`, the secret."""

    token: Token
    text: str
    wire: Wire = GENERATION

    def __repr__(self) -> str:
        return f"TokenMade({self.token.id})"


class TokenAnswer(Struct, frozen=True):
    token: Token
    wire: Wire = GENERATION


class TokensAnswer(Struct, frozen=True):
    """Newest first; ended tokens stay listed for 30 days."""

    tokens: tuple[Token, ...]
    wire: Wire = GENERATION


class RevokeTokenRequest(Struct, frozen=True):
    """The path names the token."""

    wire: Wire = GENERATION
