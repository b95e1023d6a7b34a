"""An issuer in memory for simulations: same rules, but a certificate is only its facts as JSON."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from holdfast.errors import Corrupt, NotPermitted
from holdfast.model import canonical
from holdfast.model.certificate import (
    BACKDATED_S,
    DAY_S,
    ISSUER_DAYS,
    LEAF_DAYS,
    NO_CONSTRAINTS,
    CertificateFacts,
    ChainFacts,
    ChainLink,
    Constraints,
    Issued,
)
from holdfast.trust.certificates import checked_names, leaf_due, needs_reissue

_MARK = b"memory certificate "


class Written(msgspec.Struct, frozen=True):
    """A certificate. `key` stands for its key pair, `maker` for the key that signed it."""

    number: int
    key: str
    maker: str
    names: tuple[str, ...]
    not_before_s: float
    not_after_s: float
    constraints: Constraints = NO_CONSTRAINTS


class MemoryCertificates:
    def __init__(self) -> None:
        self._made = 0
        self._issuer: bytes | None = None
        self._serving: Issued | None = None

    def issuer(self, node: str, wanted: Constraints, now_s: float) -> bytes:
        if self._issuer is None or needs_reissue(self.facts(self._issuer), wanted, now_s) is not None:
            self._made += 1
            key = f"issuing key of {node}"  # the same for every issuing certificate of this node
            until_s = now_s + ISSUER_DAYS * DAY_S
            self._issuer = write(Written(self._made, key, key, (), now_s - BACKDATED_S, until_s, wanted))
            self._serving = None
        return self._issuer

    def serving(self, names: Sequence[str], now_s: float, anew: bool = False) -> Issued:
        if anew or self._serving is None or leaf_due(self._serving.facts, names, now_s):
            self._serving = self.issue(names, now_s)
        return self._serving

    def issue(self, names: Sequence[str], now_s: float) -> Issued:
        issuer = self.current()
        above = read(issuer)
        plain = checked_names(above.constraints, names)
        self._made += 1
        key = f"key {self._made} of {above.key}"
        until_s = min(now_s + LEAF_DAYS * DAY_S, above.not_after_s)
        leaf = write(Written(self._made, key, above.key, plain, now_s - BACKDATED_S, until_s))
        return Issued(leaf + b"\n" + issuer, key.encode(), self.facts(leaf))

    def facts(self, certificate: bytes) -> CertificateFacts:
        first = leaf_of(certificate)
        said = read(first)
        return CertificateFacts(
            digest=canonical.digest(first),
            names=said.names,
            addresses=(),
            not_before_s=said.not_before_s,
            not_after_s=said.not_after_s,
            constraints=said.constraints,
            bounded=bool(said.constraints.permitted),
            self_signed=said.key == said.maker,
        )

    def chain(self, chain: bytes, private: bytes) -> ChainFacts:
        found = [(part, read(part)) for part in chain.split(b"\n")]
        signed = [*(lower.maker == upper.key for (_, lower), (_, upper) in pairwise(found)), False]
        links = tuple(_link(part, said, by_next) for (part, said), by_next in zip(found, signed, strict=True))
        bound = self.facts(found[-1][0])
        return ChainFacts(
            digest=canonical.digest(chain),
            links=links,
            leaf=self.facts(chain),
            serial=f"{found[0][1].number:x}",
            serves=bool(found[0][1].names),
            other_names=False,
            key_belongs=private == found[0][1].key.encode(),
            anchor=found[-1][0],
            own_kind=len(found) == 2 and bound.self_signed and bound.bounded,
        )

    def current(self) -> bytes:
        if self._issuer is None:
            raise NotPermitted("no issuer yet", remedy="call issuer() first", code="no_issuer")
        return self._issuer


def write(said: Written) -> bytes:
    return _MARK + msgspec.json.encode(said)


def read(certificate: bytes) -> Written:
    try:
        if not certificate.startswith(_MARK):
            raise ValueError("it lacks the prefix of a memory certificate")
        return msgspec.json.decode(certificate.removeprefix(_MARK), type=Written)
    except ValueError as trouble:
        raise Corrupt(
            f"not a memory certificate: {trouble}",
            remedy="use one that MemoryCertificates made",
            code="certificate_unreadable",
        ) from None


def leaf_of(chain: bytes) -> bytes:
    return chain.split(b"\n", 1)[0]


def _link(certificate: bytes, said: Written, signed_by_next: bool) -> ChainLink:
    return ChainLink(
        digest=canonical.digest(certificate),
        not_before_s=said.not_before_s,
        not_after_s=said.not_after_s,
        key_kind="ec",
        key_bits=256,
        authority=not said.names,
        self_signed=said.key == said.maker,
        signed_by_next=signed_by_next,
    )
