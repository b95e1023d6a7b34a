"""Translate ACME errors into ours, with the authority's own message: retried soon, or refused."""

import requests
from acme import errors, messages
from josepy.errors import DeserializationError

from holdfast.adapters.public_authority.acme.terms import BUSY
from holdfast.errors import Failed, HoldfastError, Limited, TryLater

_CHARS_MAX = 300
_RATE_LIMIT_S = 3600.0  # if the authority gives no delay

# Problem types of RFC 8555 6.7 that are temporary and unrelated to the order.
_PASSING = {"badNonce", "serverInternal"}


def told(trouble: Exception, where: str, status: int, retry_after_s: float) -> HoldfastError:
    if isinstance(trouble, HoldfastError):
        return trouble
    if isinstance(trouble, requests.exceptions.RequestException):
        return _not_reached(trouble, where)
    if isinstance(trouble, messages.Error):
        return _problem(trouble, where, status, retry_after_s)
    if isinstance(trouble, errors.ClientError | errors.NonceError | DeserializationError | ValueError | KeyError):
        return nonsense(where, f"{type(trouble).__name__}, HTTP status {status}")
    return nonsense(where, f"{type(trouble).__name__}: {trouble}")


def _not_reached(trouble: requests.exceptions.RequestException, where: str) -> HoldfastError:
    if isinstance(trouble, requests.exceptions.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(trouble):
        return Failed(
            f"the certificate of the authority {where} cannot be verified: {_plain(str(trouble))}",
            remedy="for your own authority, put its root certificate into `ca` of [acme] in fleet.toml",
            code="acme_unproven",
        )
    return TryLater(
        f"the authority {where} cannot be reached: {_plain(_innermost(trouble))}",
        remedy=f"check the connection from this edge: curl -v {where}; the agent retries automatically",
        code="acme_unreachable",
    )


def _innermost(trouble: BaseException) -> str:
    """Libraries nest exceptions; the innermost one names the cause."""
    inner = getattr(trouble, "reason", None) or next(iter(trouble.args), None)
    return _innermost(inner) if isinstance(inner, BaseException) else str(trouble) or type(trouble).__name__


def _problem(trouble: messages.Error, where: str, status: int, retry_after_s: float) -> HoldfastError:
    if trouble.code == "rateLimited" or status == 429:
        return Limited(
            f"the authority {where} limits the rate of requests: {of(trouble)}",
            remedy="wait; the agent retries when the authority allows it. The current certificate stays in use",
            code="acme_rate_limited",
            retry_after_s=retry_after_s or _RATE_LIMIT_S,
        )
    if trouble.code in _PASSING or status >= 500:
        return TryLater(
            f"the authority {where} has a temporary error: {of(trouble)}",
            remedy="wait; the agent retries automatically",
            code=BUSY,
        )
    if trouble.code == "externalAccountRequired":
        return Failed(
            f"the authority {where} requires an external account, which is not supported: {of(trouble)}",
            remedy="choose another authority in [acme] of fleet.toml",
            code="acme_refused",
        )
    return refused(where, of(trouble))


def refused(where: str, why: str) -> Failed:
    return Failed(
        f"the authority {where} refused: {why}",
        remedy="point the public name at this edge and open port 80 to the internet; the agent retries automatically",
        code="acme_refused",
    )


def nonsense(where: str, why: str) -> TryLater:
    return TryLater(
        f"the authority {where} sent an invalid answer: {_plain(why)}",
        remedy="check `directory` in [acme] of fleet.toml; the agent retries automatically",
        code="acme_nonsense",
    )


def of(problem: messages.Error) -> str:
    """The authority's own message, short and printable, since it appears in reports and on terminals."""
    kind = str(problem.typ or "").rsplit(":", maxsplit=1)[-1]
    said = [f"{kind}: {problem.detail or problem.title or problem.description or 'no details'}"]
    said += [str(one.detail) for one in problem.subproblems or () if one.detail]
    return _plain("; ".join(said))


def _plain(text: str) -> str:
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return line if len(line) <= _CHARS_MAX else line[: _CHARS_MAX - 1] + "…"
