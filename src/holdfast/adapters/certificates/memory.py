"""An issuer in memory for simulations: it follows the same rules, and its certificates are only their own facts."""

from collections.abc import Sequence

import msgspec

from holdfast.errors import Corrupt, NotPermitted
from holdfast.model import canonical
from holdfast.model.certificate import (
    BACKDATED_S,
    DAY_S,
    ISSUER_DAYS,
    LEAF_DAYS,
    CertificateFacts,
    Constraints,
    Issued,
)
from holdfast.trust.certificates import checked_names, leaf_due, needs_reissue

_MARK = b"memory certificate "


class _Written(msgspec.Struct, frozen=True):
    number: int
    maker: str
    names: tuple[str, ...]
    not_before_s: float
    not_after_s: float
    constraints: Constraints


class MemoryCertificates:
    def __init__(self) -> None:
        self._made = 0
        self._issuer: bytes | None = None
        self._serving: Issued | None = None

    def issuer(self, node: str, wanted: Constraints, now_s: float) -> bytes:
        if self._issuer is None or needs_reissue(self.facts(self._issuer), wanted, now_s) is not None:
            self._issuer = self._write(node, (), now_s, now_s + ISSUER_DAYS * DAY_S, wanted)
            self._serving = None
        return self._issuer

    def serving(self, names: Sequence[str], now_s: float, anew: bool = False) -> Issued:
        if anew or self._serving is None or leaf_due(self._serving.facts, names, now_s):
            self._serving = self.issue(names, now_s)
        return self._serving

    def issue(self, names: Sequence[str], now_s: float) -> Issued:
        if self._issuer is None:
            raise NotPermitted("no issuer yet", remedy="ask issuer() first", code="no_issuer")
        above = self.facts(self._issuer)
        plain = checked_names(above.constraints, names)
        until_s = min(now_s + LEAF_DAYS * DAY_S, above.not_after_s)
        leaf = self._write(above.digest, plain, now_s, until_s, Constraints(()))
        return Issued(leaf, b"no key", self.facts(leaf))

    def facts(self, certificate: bytes) -> CertificateFacts:
        if not certificate.startswith(_MARK):
            raise Corrupt("not a certificate from memory", remedy="use the maker's own", code="certificate_unreadable")
        said = msgspec.json.decode(certificate.removeprefix(_MARK), type=_Written)
        return CertificateFacts(
            digest=canonical.digest(certificate),
            names=said.names,
            addresses=(),
            not_before_s=said.not_before_s,
            not_after_s=said.not_after_s,
            constraints=said.constraints,
            bounded=bool(said.constraints.permitted),
            self_signed=not said.names,
        )

    def _write(
        self, maker: str, names: tuple[str, ...], now_s: float, until_s: float, constraints: Constraints
    ) -> bytes:
        self._made += 1
        written = _Written(self._made, maker, names, now_s - BACKDATED_S, until_s, constraints)
        return _MARK + msgspec.json.encode(written)
