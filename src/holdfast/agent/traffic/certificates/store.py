"""The stored certificates of this node: read once, checked before each use. Returns only valid ones."""

from collections.abc import Collection, Iterable
from typing import Literal

from msgspec import Struct

from holdfast.errors import Corrupt, Failed
from holdfast.model.certificate import ChainFacts
from holdfast.ports.certificate_store import CertificateStore, StoredCertificate
from holdfast.ports.certificates import Certificates
from holdfast.ports.proxy import Servable
from holdfast.trust import certificates as rules
from holdfast.trust import servable as proofs

Authority = Literal["own", "acme"]


class Held(Struct, frozen=True):
    kept: StoredCertificate
    facts: ChainFacts

    @property
    def authority(self) -> Authority:
        return "own" if self.facts.own_kind else "acme"


class KeptCertificates:
    def __init__(self, certificates: Certificates, shelf: CertificateStore) -> None:
        self._certificates = certificates
        self._shelf = shelf
        self._held: dict[str, Held] = {}

    def names(self) -> set[str]:
        return {*self._shelf.names(), *self._held}

    def known(self, name: str) -> Held | None:
        """Whatever lies there, good or not; None if it is none."""
        if name not in self._held:
            kept = self._shelf.kept(name)
            if kept is None:
                return None
            try:
                self._held[name] = Held(kept, self._certificates.chain(kept.chain, kept.private))
            except Corrupt:
                return None
        return self._held[name]

    def good(self, name: str, names: Collection[str], now_s: float) -> Servable | None:
        held = self.known(name)
        if held is None or proofs.complaint(held.facts, names, now_s) is not None:
            return None
        return proofs.servable(held.facts, held.kept.chain, held.kept.private, names, now_s)

    def due(self, name: str, issuer: str, now_s: float) -> bool:
        """It is time for another one, or the node's issuing certificate (by its digest) was issued again."""
        held = self.known(name)
        if held is None or (held.authority == "own" and held.facts.links[-1].digest != issuer):
            return True
        return rules.renew_due(held.facts.leaf.not_before_s, held.facts.not_after_s, now_s)

    def take(self, name: str, names: Collection[str], kept: StoredCertificate, now_s: float) -> Servable:
        """Judged, then on the disk, then given: what is shown now is shown after a restart, too."""
        try:
            facts = self._certificates.chain(kept.chain, kept.private)
        except Corrupt as trouble:
            raise Failed(trouble.message, remedy=trouble.remedy, code="certificate_failed") from None
        proof = proofs.servable(facts, kept.chain, kept.private, names, now_s)
        self._shelf.keep(name, kept)
        self._held[name] = Held(kept, facts)
        return proof

    def missing(self) -> Iterable[str]:
        """In use, and not on the disk any more: a restart would miss them."""
        return sorted(self._held.keys() - set(self._shelf.names()))

    def keep_again(self, name: str) -> None:
        self._shelf.keep(name, self._held[name].kept)

    def drop(self, name: str) -> None:
        self._held.pop(name, None)
        self._shelf.drop(name)
