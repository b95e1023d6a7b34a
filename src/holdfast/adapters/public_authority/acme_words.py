"""What went wrong at an ACME server, in its own words, as one of two kinds: asked again soon, or refused."""

import requests
from acme import errors, messages
from josepy.errors import DeserializationError

from holdfast.adapters.public_authority.terms import BUSY
from holdfast.errors import Failed, HoldfastError, Limited, TryLater

_CHARS_MAX = 300
_RATE_LIMIT_S = 3600.0  # if the authority does not say how long

# Of the problem documents of RFC 8555 6.7, those that say nothing about what was ordered.
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
            f"the authority {where} does not prove to be who it says: {_plain(str(trouble))}",
            remedy="for an authority of your own, put its root certificate into ca of [acme] in fleet.toml",
            code="acme_unproven",
        )
    return TryLater(
        f"the authority {where} cannot be reached: {_plain(_innermost(trouble))}",
        remedy="look whether this edge reaches it: curl -v its directory; it is asked again by itself",
        code="acme_unreachable",
    )


def _innermost(trouble: BaseException) -> str:
    """Libraries wrap each other's words; the last one says what happened."""
    inner = getattr(trouble, "reason", None) or next(iter(trouble.args), None)
    return _innermost(inner) if isinstance(inner, BaseException) else str(trouble) or type(trouble).__name__


def _problem(trouble: messages.Error, where: str, status: int, retry_after_s: float) -> HoldfastError:
    if trouble.code == "rateLimited" or status == 429:
        return Limited(
            f"the authority {where} was asked too often: {of(trouble)}",
            remedy="wait; it is asked again by itself when it said. What is kept stays in use",
            code="acme_rate_limited",
            retry_after_s=retry_after_s or _RATE_LIMIT_S,
        )
    if trouble.code in _PASSING or status >= 500:
        return TryLater(
            f"the authority {where} is in trouble: {of(trouble)}",
            remedy="wait; it is asked again by itself",
            code=BUSY,
        )
    if trouble.code == "externalAccountRequired":
        return Failed(
            f"the authority {where} wants an account that was made elsewhere, which is not supported: {of(trouble)}",
            remedy="choose another authority in [acme] of fleet.toml",
            code="acme_refused",
        )
    return refused(where, of(trouble))


def refused(where: str, why: str) -> Failed:
    return Failed(
        f"the authority {where} refused: {why}",
        remedy="let the public name lead to this edge, and port 80 be open to the world; it is asked again by itself",
        code="acme_refused",
    )


def nonsense(where: str, why: str) -> TryLater:
    return TryLater(
        f"the authority {where} answers what no authority should: {_plain(why)}",
        remedy="look whether directory in [acme] of fleet.toml is right; it is asked again by itself",
        code="acme_nonsense",
    )


def of(problem: messages.Error) -> str:
    """The authority's own words: they end up in reports and on terminals, so they are short and printable."""
    kind = str(problem.typ or "").rsplit(":", maxsplit=1)[-1]
    said = [f"{kind}: {problem.detail or problem.title or problem.description or 'no words'}"]
    said += [str(one.detail) for one in problem.subproblems or () if one.detail]
    return _plain("; ".join(said))


def _plain(text: str) -> str:
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return line if len(line) <= _CHARS_MAX else line[: _CHARS_MAX - 1] + "…"
