"""Tokens that read: list, make and revoke them. Every change is in the audit log before the answer."""

from typing import Protocol

from holdfast.hub.http.operation import OPERATORS, Operation
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import REFUSED, Route
from holdfast.model.audit import Event
from holdfast.model.principal import Principal
from holdfast.model.token import NewToken, Token
from holdfast.ports.audit_log import AuditLog
from holdfast.wire import codec, token_messages

NAME_SHOWN = 100  # characters of a token's name in the audit log

READ_TOKENS = Operation("read-tokens", "which tokens there are; never what is secret in them", OPERATORS)
MAKE_TOKEN = Operation("make-token", "make a token that reads", OPERATORS)
REVOKE_TOKEN = Operation("revoke-token", "end a token", OPERATORS)


class TokenBook(Protocol):
    """hub/http/tokens.py."""

    def create(self, by: Principal, name: str, expires_in_s: int) -> NewToken: ...

    def list(self) -> tuple[Token, ...]: ...

    def revoke(self, token_id: str) -> Token: ...


class Tokens:
    def __init__(self, book: TokenBook, audit: AuditLog) -> None:
        self._book = book
        self._audit = audit

    def tokens(self, request: Request) -> bytes:
        return codec.write(token_messages.TokensAnswer(self._book.list()))

    def make_token(self, request: Request) -> bytes:
        wanted = codec.read(request.body, token_messages.TokenRequest)
        made = self._book.create(request.principal, wanted.name, wanted.expires_in_s)
        self._note(request, "make-token", made.token)
        return codec.write(token_messages.TokenMade(made.token, made.text))

    def revoke_token(self, request: Request) -> bytes:
        ended = self._book.revoke(request.path["token"])
        self._note(request, "revoke-token", ended)
        return codec.write(token_messages.TokenAnswer(ended))

    def _note(self, request: Request, action: str, token: Token) -> None:
        """Durable before the answer: no caller holds a token that the log does not have. Never its secret."""
        detail = f"{token.scope} until {token.expires_s}: {token.name[:NAME_SHOWN]}"
        self._audit.append(Event(str(request.principal), action, f"token.{token.id}", "done", detail, request.source))


ROUTES = (
    Route(
        "GET",
        "/v1/tokens",
        READ_TOKENS,
        "Every token, newest first",
        Tokens,
        Tokens.tokens,
        token_messages.TokensAnswer,
    ),
    Route(
        "POST",
        "/v1/tokens",
        MAKE_TOKEN,
        "Make a token that reads; its secret is in this answer and nowhere else",
        Tokens,
        Tokens.make_token,
        token_messages.TokenMade,
        token_messages.TokenRequest,
        cost="write",
        refusals=REFUSED,
    ),
    Route(
        "POST",
        "/v1/tokens/{token}/revocation",
        REVOKE_TOKEN,
        "End a token",
        Tokens,
        Tokens.revoke_token,
        token_messages.TokenAnswer,
        token_messages.RevokeTokenRequest,
        cost="write",
        refusals=(*REFUSED, 404),
    ),
)
