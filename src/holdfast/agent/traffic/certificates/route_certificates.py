"""The certificates of this node's proxy: stored, issued or ordered, renewed in time, verified by real handshakes.

No certificate leaves here that was not judged (I-16). If a renewal fails, the old one is kept while it is good. No byte
of a private key is logged or reported (I-18).
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from msgspec import UNSET, UnsetType

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.agent.traffic.certificates.acme_retry import AcmeRetry, covers
from holdfast.agent.traffic.certificates.findings import FAILED, CertificateNotes, moment
from holdfast.agent.traffic.certificates.store import Authority, KeptCertificates
from holdfast.errors import Corrupt, Failed, HoldfastError, TryLater
from holdfast.model import canonical
from holdfast.model.certificate import CertificateFacts, armoured
from holdfast.model.fleet import Acme, Settings
from holdfast.model.report import CertificateState
from holdfast.ports.certificate_store import CertificateStore, StoredCertificate
from holdfast.ports.certificates import Certificates
from holdfast.ports.proxy import Servable
from holdfast.ports.public_authority import Answer, PublicAuthority
from holdfast.trust import certificates as rules

AGAIN_S = 60.0


class RouteCertificates:
    def __init__(
        self,
        certificates: Certificates,
        shelf: CertificateStore,
        authority: PublicAuthority,
        now_s: Callable[[], float],
        findings: Findings,
        say: Say,
    ) -> None:
        self._certificates = certificates
        self._authority = authority
        self._now_s = now_s
        self._say = say
        self._settings: Settings | None = None
        self._issuer = ""  # digest of the node's issuing certificate
        self._kept = KeptCertificates(certificates, shelf)
        self._notes = CertificateNotes(now_s, findings, say)
        self._patience = AcmeRetry()
        self._again_s: dict[str, float] = {}  # when this node's own issuer is asked again, after it failed
        self._orders: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def follow(self, settings: Settings) -> None:
        """With every accepted revision, after the issuer followed it and before anything is asked for: which names are
        internal, which are public, and who issues here."""
        self._settings = settings
        try:
            self._issuer = canonical.digest(self._certificates.current())
        except HoldfastError:  # none yet: a request for one of its leaves gets this error
            self._issuer = ""

    # ---- giving

    def internal(self, names: tuple[str, ...]) -> Servable:
        """By the node's own issuer; kept under the first name."""
        plain = self._permitted(names, rules.internal_complaint)
        return self._own(plain[0], plain)

    async def public(self, hostname: str, acme: Acme | UnsetType, answer: Answer, at_most_s: float) -> Servable:
        """A kept one that is due is renewed before this returns, or given as it is if that fails."""
        (name,) = self._permitted((hostname,), rules.public_complaint)
        async with self._orders[name]:
            if acme is UNSET or not covers(acme, name):
                return self._own(name, (name,))
            return await self._public(name, acme, answer, at_most_s)

    def prepare(self, hostname: str, acme: Acme | UnsetType) -> None:
        """By the node's own issuer, if that is its authority. Another authority is not asked before it must be."""
        if acme is UNSET or not covers(acme, hostname):
            with suppress(HoldfastError):  # the step that needs it reports the error
                (name,) = self._permitted((hostname,), rules.public_complaint)
                self._own(name, (name,))

    def _permitted(
        self, names: Sequence[str], complaint: Callable[[str, Settings], rules.Complaint | None]
    ) -> tuple[str, ...]:
        """Before an authority is asked to sign, whichever it is (M-26, I-17)."""
        settings = self._settings
        try:
            plain = tuple(rules.checked_name(name) for name in names)
        except HoldfastError as trouble:
            raise Failed(trouble.message, remedy=trouble.remedy, code=FAILED) from None
        if settings is None or not plain:
            raise Failed(
                "this node has not accepted a revision yet, so it cannot issue certificates",
                remedy="`holdfast apply` a fleet that names this node",
                code=FAILED,
            )
        for name in plain:
            found = complaint(name, settings)
            if found is not None:
                raise Failed(
                    f"no certificate is issued: {found}",
                    remedy="look at internal_zone, public_domains and the routes: holdfast plan",
                    code=FAILED,
                )
        return plain

    def _own(self, name: str, names: tuple[str, ...]) -> Servable:
        good = self._kept.good(name, names, self._now_s())
        if good is not None and not self._due(name, "own"):
            return good
        try:
            issued = self._certificates.issue(names, self._now_s())
            proof = self._taken(name, names, StoredCertificate(issued.chain, issued.private))
        except HoldfastError as trouble:
            self._again_s[name] = self._now_s() + AGAIN_S
            return self._fallen_back(name, good, trouble)
        self._again_s.pop(name, None)
        self._issuer = canonical.digest(self._certificates.current())
        return proof

    async def _public(self, name: str, acme: Acme, answer: Answer, at_most_s: float) -> Servable:
        good = self._kept.good(name, (name,), self._now_s())
        if good is not None and not self._due(name, "acme"):
            return good
        waits = self._patience.waits(name, acme, self._now_s())
        if waits is not None:
            if good is not None:
                return good
            raise _later(waits.trouble, waits.next_s)
        try:
            chain, private = await self._authority.order(acme, (name,), _passing(answer), at_most_s)
            taken = self._taken(name, (name,), StoredCertificate(chain, private))
        except HoldfastError as trouble:
            self._patience.refused(name, acme, trouble, self._now_s())
            return self._fallen_back(name, good, trouble)
        self._patience.forget(name)
        if self._due(name, "acme"):  # it is good, and so short that the authority would be asked at every turn
            self._patience.refused(name, acme, _too_short(name), self._now_s())
        return taken

    def _taken(self, name: str, names: tuple[str, ...], kept: StoredCertificate) -> Servable:
        proof = self._kept.take(name, names, kept, self._now_s())
        held = self._kept.known(name)
        if held is not None:
            self._notes.issued(name, held)
        return proof

    def _fallen_back(self, name: str, good: Servable | None, trouble: HoldfastError) -> Servable:
        self._notes.failed(name, trouble, kept=good is not None)
        if good is not None:
            return good
        kind = TryLater if isinstance(trouble, TryLater) else Failed
        raise kind(trouble.message, remedy=trouble.remedy, code=FAILED) from None

    # ---- what is kept

    def _due(self, name: str, wanted: Authority | None = None) -> bool:
        if 0.0 < self._again_s.get(name, 0.0) - self._now_s() <= AGAIN_S:
            return False  # it was tried just now, in vain; what is kept is good until it is tried again
        held = self._kept.known(name)
        other = held is not None and wanted is not None and held.authority != wanted
        return other or self._kept.due(name, self._issuer, self._now_s())

    def digest(self, names: tuple[str, ...]) -> str:
        """Of what is shown for exactly these internal names; "" if there is nothing good, or it is to be renewed."""
        good = self._kept.good(names[0], names, self._now_s())
        return good.digest if good is not None and not self._due(names[0], "own") else ""

    def kept(self, names: tuple[str, ...]) -> Servable | None:
        """What an earlier process showed for them, if it still may be shown; no authority is asked for another one."""
        return self._kept.good(names[0], names, self._now_s())

    def due(self) -> tuple[str, ...]:
        return tuple(name for name in sorted(self._kept.names()) if self._kept.known(name) and self._due(name))

    def anchor(self, name: str) -> bytes:
        """PEM of the last certificate of its chain, to verify a handshake with this proxy. b"" if there is none."""
        held = self._kept.known(name)
        return b"" if held is None else armoured(held.facts.anchor).encode("ascii")

    def state(self, name: str) -> CertificateState | None:
        return self._notes.state(name, self._kept.known(name))

    def forget_all_but(self, names: Collection[str]) -> None:
        for name in (self._kept.names() | self._notes.names()) - set(names):
            self._patience.forget(name)
            self._notes.forget(name)
            try:
                self._kept.drop(name)
            except HoldfastError as trouble:  # it does no harm; the next revision tries again
                self._say("certificate_not_dropped", {"name": name, "message": trouble.message})

    # ---- what is shown

    def seen(self, name: str, leaf: bytes, trouble: str = "") -> bool:
        """`leaf` is DER, b"" if nothing was shown; `trouble` is why the handshake proved nothing."""
        return self._notes.seen(name, self._kept.known(name), leaf, _read(self._certificates, leaf), trouble)

    def unrouted(self, name: str) -> None:
        """No route shows it (any more)."""
        self._notes.unrouted(name)

    def watch(self) -> None:
        """The ladder of M-88 over everything that is kept, and over what was last seen."""
        for name in self._kept.missing():
            try:
                self._kept.keep_again(name)
            except HoldfastError as trouble:
                self._notes.failed(name, trouble, kept=True)
        for name in sorted(self._kept.names()):
            held = self._kept.known(name)
            if held is not None:
                self._notes.watch(name, held.facts)


def _read(certificates: Certificates, leaf: bytes) -> CertificateFacts | None:
    try:
        return certificates.facts(leaf)
    except Corrupt:
        return None


def _passing(answer: Answer) -> Answer:
    """Trouble with our own port 80 is no refusal of the authority: it is tried again soon."""

    async def answered(tokens: Mapping[str, str]) -> None:
        try:
            await answer(tokens)
        except HoldfastError as trouble:
            raise TryLater(trouble.message, remedy=trouble.remedy, code=trouble.code) from None

    return answered


def _later(trouble: HoldfastError, next_s: float) -> TryLater:
    return TryLater(f"{trouble.message}; asked again at {moment(next_s)}", remedy=trouble.remedy, code=FAILED)


def _too_short(name: str) -> Failed:
    return Failed(
        f"the authority signed for {name} only until shortly from now",
        remedy="look at the clock of this node, and at what the authority offers",
        code=FAILED,
    )
