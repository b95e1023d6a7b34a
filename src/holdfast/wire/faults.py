"""Errors over HTTP: the status of each family, and the family a client rebuilds from it. Pure.

The body is always {"code", "message", "remedy"}. A header carries the exit code, because one status stands for
several families (409: a conflict, or a damaged ledger) and new codes come with every release.
"""

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct

from holdfast.errors import (
    Conflict,
    Corrupt,
    Failed,
    HoldfastError,
    Invalid,
    Limited,
    NeedsOperator,
    NotPermitted,
    SignatureRequired,
    TryLater,
    Unauthenticated,
    Unreachable,
)

EXIT_HEADER = "Holdfast-Exit"
RETRY_AFTER_S = 2
HUB, NODE = "the hub", "the node"  # the other side

T = TypeVar("T", bound=HoldfastError)


class Fault(Struct, frozen=True):
    code: str
    message: str
    remedy: str


# Family → status. The most specific row wins; a test walks every class of errors.py.
STATUS: Mapping[type[HoldfastError], int] = {
    Invalid: 400,
    NotPermitted: 403,
    Unauthenticated: 401,
    SignatureRequired: 403,
    Conflict: 409,
    Corrupt: 409,  # the hub's own ledger is damaged: reported as such, not as the caller's mistake
    TryLater: 503,
    Limited: 429,
    Unreachable: 503,
    Failed: 500,  # tried and did not work, for instance a full disk: never the answer to bad input
    NeedsOperator: 500,
    HoldfastError: 500,
}

# Codes that mean the same status whatever family raised them.
STATUS_OF_CODE: Mapping[str, int] = {
    "not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "body_too_large": 413,
    "content_encoding": 415,
    "expectation_failed": 417,
    "resource_exhausted": 429,
}

# Codes about bytes in a request. The same codes on a read route are about the hub's own ledger: 409.
# Not here: blob_missing and blob_damaged, which may be either, so they stay 409.
SENT_BYTES = frozenset(
    {
        "blob_digest",
        "chain_broken",
        "not_canonical",
        "other_fleet",
        "revision_unsound",
        "signature_invalid",
        "unreadable",
    }
)

FAMILY_OF_EXIT: Mapping[int, type[HoldfastError]] = {
    family.exit_code: family
    for family in (Failed, Invalid, NotPermitted, SignatureRequired, Conflict, TryLater, Corrupt)
}

# For an answer without the header, such as a proxy's.
FAMILY_OF_STATUS: Mapping[int, type[HoldfastError]] = {
    401: Unauthenticated,
    403: NotPermitted,
    408: TryLater,
    409: Conflict,
    429: TryLater,
    500: Failed,
    502: Unreachable,
    503: TryLater,
    504: Unreachable,
}


def status(trouble: HoldfastError, *, writing: bool) -> int:
    if trouble.code in STATUS_OF_CODE:
        return STATUS_OF_CODE[trouble.code]
    if writing and isinstance(trouble, Corrupt) and trouble.code in SENT_BYTES:
        return 400
    return next(STATUS[family] for family in type(trouble).__mro__ if family in STATUS)


def fault(trouble: HoldfastError) -> Fault:
    return Fault(trouble.code, trouble.message, trouble.remedy)


def trouble(said: Fault, status_code: int, exit_text: str, by: str = HUB) -> HoldfastError:
    """The error as it was raised on the other side: same family, exit code and code. Its texts are marked as those of
    the other side: what a hub calls a remedy is never shown as one of ours (X20).

    503 is `TryLater` whatever the exit code: a locked ledger may be tried again, though the command exits with 5.
    """
    exit_code = int(exit_text) if exit_text.isascii() and exit_text.isdigit() and len(exit_text) == 1 else 0
    known = FAMILY_OF_EXIT.get(exit_code)
    family = TryLater if status_code == STATUS[TryLater] else known or _guess(said.code, status_code)
    rebuilt = marked(family, said, by)
    if known is not None:
        rebuilt.exit_code = exit_code
    return rebuilt


def marked(family: type[T], said: Fault, by: str = HUB) -> T:
    rebuilt = family(f"{by} says: {said.message}", remedy=suggested(said.remedy, by), code=said.code)
    rebuilt.said = (said.message, said.remedy)
    return rebuilt


def passed_on(family: type[T], message: str, theirs: str, *, remedy: str, code: str) -> T:
    """An error with a remedy that came through the hub, which no signature covers; `remedy` if none came."""
    rebuilt = family(message, remedy=suggested(theirs) if theirs else remedy, code=code)
    rebuilt.said = (message, theirs) if theirs else None
    return rebuilt


def suggested(remedy: str, by: str = HUB) -> str:
    return f"{by} suggests: {remedy}"


def _guess(code: str, status_code: int) -> type[HoldfastError]:
    if code == SignatureRequired.code:
        return SignatureRequired
    return FAMILY_OF_STATUS.get(status_code, Failed if status_code >= 500 else Invalid)
