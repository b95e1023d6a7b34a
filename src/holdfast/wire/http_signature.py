"""Signed HTTP requests (RFC 9421): sign and verify. Pure; other rooms decide who may do what.

There is exactly one form, written in `_params` and verified by comparison. Any other spelling is refused, even if the
RFC allows it, so that two readers cannot understand two different things.
"""

import binascii
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import Invalid, Unauthenticated
from holdfast.model import ssh_key

if TYPE_CHECKING:
    from holdfast.ports.identity_key import IdentityKey

WINDOW_S = 60
NONCE_BYTES = 16
NO_FLEET = "none"  # as `Holdfast-Fleet` before the first revision
TARGET_CHARS_MAX = 4096

LABEL = TAG = "holdfast"
FLEET, TO, DIGEST = "Holdfast-Fleet", "Holdfast-To", "Content-Digest"
INPUT, SIGNATURE = "Signature-Input", "Signature"
TIME, NONCE = "Holdfast-Time", "Holdfast-Nonce"

_TYPE = "ssh-ed25519"
_B64 = r"[A-Za-z0-9+/]"
_METHOD = re.compile(r"[A-Z]{1,16}")
_PATH = r"[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2}"  # RFC 3986: readers may disagree about anything else
_TARGET = re.compile(rf"(/(?:{_PATH})*)(\?(?:{_PATH}|\?)+)?")  # a bare question mark would sign as if there were none
_NAMES = (FLEET, TO, DIGEST, INPUT, SIGNATURE, TIME, NONCE)
_SPELT = {name.lower(): name for name in _NAMES}
_REQUEST = (FLEET, TO, DIGEST, INPUT, SIGNATURE)
_ANSWER = (TIME, NONCE, INPUT, SIGNATURE)


@cache
def _forms() -> Mapping[str, re.Pattern[str]]:
    """Compiled at the first use: a command only writes these headers."""
    return {
        FLEET: re.compile(rf"[0-9a-f]{{64}}|{NO_FLEET}"),
        TO: re.compile(rf"SHA256:{_B64}{{43}}"),
        DIGEST: re.compile(rf"sha-256=:({_B64}{{43}}=):"),
        # 51 bytes of key blob and 16 of nonce have one length in base64 each
        INPUT: re.compile(
            rf'{LABEL}=\([ "@a-z-]{{1,120}}\);created=([1-9][0-9]{{0,11}});keyid="({_B64}{{68}})";alg="ed25519"'
            rf'(?:;nonce="({_B64}{{22}}==)")?;tag="{TAG}"'
        ),
        SIGNATURE: re.compile(rf"{LABEL}=:({_B64}{{86}}==):"),
        TIME: re.compile(r"[1-9][0-9]{0,11}"),
        NONCE: re.compile(rf"{_B64}{{22}}=="),
    }


class Parsed(Struct, frozen=True):
    """A well-formed request. It proves nothing before check_signature and check_body."""

    line: str  # public line of the key that claims to have signed
    created_s: int
    nonce: str
    fleet: str
    to: str  # fingerprint of the key it is meant for
    digest: bytes | None  # of the body; None: the request has no body
    base: bytes  # what the key really signs
    signature: bytes

    @property
    def replayable_until_s(self) -> float:
        """How long to keep its nonce: twice the window, whatever happens to the clock in between."""
        return float(self.created_s + 2 * WINDOW_S)


# ---- signing


def sign(
    key: "IdentityKey", method: str, target: str, body: bytes | None, fleet: str, to: str, created_s: int, nonce: str
) -> dict[str, str]:
    """The headers that make it a signed request; `fleet` is "" before the first revision."""
    said = {FLEET: fleet or NO_FLEET, TO: to}
    if body is not None:
        said[DIGEST] = f"sha-256=:{_encode(hashlib.sha256(body).digest())}:"
    derived, covered = _components(method, target, said)
    params = _params(covered, created_s, nonce, key.line)
    return said | {INPUT: f"{LABEL}={params}", SIGNATURE: _signature(key, derived, params)}


def sign_response(key: "IdentityKey", status: int, time_s: int, nonce: str) -> dict[str, str]:
    """The headers by which a hub reports its time to a client with a wrong clock; the nonce names its request."""
    said = {TIME: str(time_s), NONCE: nonce}
    derived = _response(status, said)
    params = _params(tuple(derived), time_s, "", key.line)
    return said | {INPUT: f"{LABEL}={params}", SIGNATURE: _signature(key, derived, params)}


def _signature(key: "IdentityKey", derived: Mapping[str, str], params: str) -> str:
    return f"{LABEL}=:{_encode(key.sign(_base(derived, params)))}:"


# ---- reading


def read(method: str, target: str, headers: Mapping[str, str]) -> Parsed:
    """The signed claims of a request, or Unauthenticated. Accepts header mappings in which a name may occur twice."""
    said = _said(headers, _REQUEST, optional=DIGEST)
    derived, covered = _components(method, target, said)
    created_s, nonce, line, params = _input(said[INPUT], covered, with_nonce=True)
    return Parsed(
        line,
        created_s,
        nonce,
        said[FLEET],
        said[TO],
        _decode(_forms()[DIGEST], said[DIGEST]) if DIGEST in said else None,
        _base(derived, params),
        _decode(_forms()[SIGNATURE], said[SIGNATURE]),
    )


def check_time(parsed: Parsed, now_s: float) -> None:
    off_s = parsed.created_s - now_s
    if not -WINDOW_S <= off_s <= WINDOW_S:
        raise Unauthenticated(
            f"the request was made {abs(off_s):,.0f} s {'after' if off_s > 0 else 'before'} the time of this machine, "
            f"the limit is {WINDOW_S} s",
            remedy="set the clock of the machine that is wrong: timedatectl set-ntp true; then try again",
            code="clock_skew",
        )


def check_signature(parsed: Parsed) -> None:
    _prove(parsed.line, parsed.signature, parsed.base)


def check_body(parsed: Parsed, body: bytes | bytearray) -> None:
    if (hashlib.sha256(body).digest() != parsed.digest) if parsed.digest is not None else body:
        raise _refused("its body is not the one that was signed", "body_digest")


def verify_response(status: int, headers: Mapping[str, str], line: str, nonce: str) -> int:
    """The time of the hub with this key, in its answer to the request with this nonce."""
    said = _said(headers, _ANSWER)
    derived = _response(status, said)
    created_s, _, signer, params = _input(said[INPUT], tuple(derived), with_nonce=False)
    if ssh_key.parse(signer).blob != ssh_key.parse(line).blob or said[NONCE] != nonce or said[TIME] != str(created_s):
        raise _refused("this answer is from another hub, or for another request")
    _prove(signer, _decode(_forms()[SIGNATURE], said[SIGNATURE]), _base(derived, params))
    return created_s


def is_fleet(text: str) -> bool:
    return _forms()[FLEET].fullmatch(text) is not None


# ---- the one form


def _components(method: str, target: str, said: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    place = _TARGET.fullmatch(target) if len(target) <= TARGET_CHARS_MAX else None
    if place is None or not _METHOD.fullmatch(method):
        raise _refused("its method or its path cannot be signed")
    derived = {"@method": method, "@path": place[1], "@query": place[2] or "?"}
    derived |= {name.lower(): said[name] for name in (DIGEST, FLEET, TO) if name in said}
    return derived, tuple(derived)


def _response(status: int, said: Mapping[str, str]) -> dict[str, str]:
    return {"@status": str(status), TIME.lower(): said[TIME], NONCE.lower(): said[NONCE]}


def _params(covered: tuple[str, ...], created_s: int, nonce: str, line: str) -> str:
    names = " ".join(f'"{name}"' for name in covered)
    once = f';nonce="{nonce}"' if nonce else ""
    keyid = line.partition(" ")[2]
    return f'({names});created={created_s};keyid="{keyid}";alg="ed25519"{once};tag="{TAG}"'


def _base(derived: Mapping[str, str], params: str) -> bytes:
    lines = [f'"{name}": {value}' for name, value in derived.items()]
    return "\n".join([*lines, f'"@signature-params": {params}']).encode("ascii")


def _said(headers: Mapping[str, str], names: tuple[str, ...], optional: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for spelling, value in headers.items():
        name = _SPELT.get(spelling.lower(), "")
        if name not in names:
            continue
        if name in found:
            raise _refused(f"the header {name} occurs twice")
        if not _forms()[name].fullmatch(value):
            raise _refused(f"the header {name} does not have the form that Holdfast writes")
        found[name] = value
    missing = [name for name in names if name not in found and name != optional]
    if missing:
        raise _refused(f"it is not signed: the header {missing[0]} is missing", "unsigned")
    return found


def _input(text: str, covered: tuple[str, ...], *, with_nonce: bool) -> tuple[int, str, str, str]:
    shape = _forms()[INPUT].fullmatch(text)
    assert shape is not None, "_said has looked at it"
    created_s, nonce = int(shape[1]), shape[3] or ""
    line = f"{_TYPE} {shape[2]}"
    try:
        ssh_key.parse(line)
    except Invalid:
        raise _refused("its key is not an Ed25519 key") from None
    params = _params(covered, created_s, nonce, line)
    if text != f"{LABEL}={params}" or bool(nonce) != with_nonce:
        raise _refused("its signature does not cover the required parts in the required order")
    if nonce:
        _decode(_forms()[NONCE], nonce)
    return created_s, nonce, line, params


def _prove(line: str, signature: bytes, base: bytes) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    (point,) = ssh_key.fields(ssh_key.parse(line))
    try:
        Ed25519PublicKey.from_public_bytes(point).verify(signature, base)
    except (InvalidSignature, ValueError):
        raise _refused("its signature is not valid", "signature_invalid") from None


def _encode(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).decode("ascii")


def _decode(form: re.Pattern[str], text: str) -> bytes:
    shape = form.fullmatch(text)
    assert shape is not None, "_said has looked at it"
    encoded = shape[1] if form.groups else shape[0]
    content = binascii.a2b_base64(encoded)
    if _encode(content) != encoded:  # unused bits at the end: a second text for the same bytes
        raise _refused("its base64 is not canonical")
    return content


def _refused(why: str, code: str = "unauthenticated") -> Unauthenticated:
    return Unauthenticated(
        f"the request is refused: {why}",
        remedy="send it with Holdfast of the same release, directly to this machine: "
        "a proxy in between must not change a request",
        code=code,
    )
