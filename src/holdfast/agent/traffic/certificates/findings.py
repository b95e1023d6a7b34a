"""Findings about route certificates: why one is not issued, how old it is, what handshakes really show."""

from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.agent.traffic.certificates.store import Held
from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.certificate import CertificateFacts, ChainFacts
from holdfast.model.report import CertificateState
from holdfast.trust import servable as proofs

FAILED = "certificate_failed"
EXPIRING = "certificate_expiring"
STALE = "certificate_stale"
HANDSHAKE = "handshake_failed"
CODES = (FAILED, EXPIRING, STALE, HANDSHAKE)

_TOO_OLD: tuple[proofs.Rung, ...] = ("stale", "expired")


class _Note(Struct):
    """What happened to one name since this process started."""

    trouble: str = ""  # of issuing it
    handshake_trouble: str = ""
    handshake_s: float = 0.0
    shown: CertificateFacts | None = None  # the leaf of the last real handshake


class CertificateNotes:
    def __init__(self, now_s: Callable[[], float], findings: Findings, say: Say) -> None:
        self._now_s = now_s
        self._findings = findings
        self._say = say
        self._notes: defaultdict[str, _Note] = defaultdict(_Note)

    def names(self) -> set[str]:
        return set(self._notes)

    def issued(self, name: str, held: Held) -> None:
        """A new certificate exists; clients get the old one until a handshake shows the new one."""
        self._notes[name] = _Note(shown=self._notes[name].shown)
        self._findings.clear(FAILED, address(name))
        said = {"names": list(held.facts.leaf.names), "authority": held.authority}
        more = {"digest": held.facts.leaf.digest[:12], "expires": moment(held.facts.not_after_s)}
        self._say("certificate_issued", {**said, **more})

    def failed(self, name: str, trouble: HoldfastError, kept: bool) -> None:
        note = self._notes[name]
        note.trouble = trouble.message
        if self._findings.add_trouble(FAILED, trouble, address(name)):
            self._say(FAILED, {"name": name, "message": trouble.message, "kept": kept})

    def state(self, name: str, held: Held | None) -> CertificateState | None:
        note = self._notes.get(name, _Note())
        trouble = note.handshake_trouble or note.trouble
        if held is None:
            return CertificateState((name,), trouble=trouble) if trouble else None
        facts = held.facts
        return CertificateState(
            names=facts.leaf.names,
            digest=facts.leaf.digest,
            serial=facts.serial,
            authority=held.authority,
            not_before_s=facts.leaf.not_before_s,
            expires_s=facts.not_after_s,
            chain=len(facts.links),
            handshake_s=note.handshake_s,
            trouble=trouble,
        )

    def forget(self, name: str) -> None:
        self._notes.pop(name, None)
        for code in CODES:
            self._findings.clear(code, address(name))

    # ---- what is shown

    def seen(self, name: str, held: Held | None, leaf: bytes, shown: CertificateFacts | None, trouble: str) -> bool:
        note = self._notes[name]
        note.shown = shown or note.shown
        digest = canonical.digest(leaf) if leaf else ""
        if held is not None and not trouble and digest == held.facts.leaf.digest:
            note.handshake_s = note.handshake_s or float(int(self._now_s()))
            note.handshake_trouble = ""
            self._findings.clear(HANDSHAKE, address(name))
            return True
        note.handshake_trouble = trouble or f"a handshake for {name} showed {_other(digest, held)}"
        remedy = "it is applied again automatically; if it stays: `holdfast node show NAME`, and the log of its agent"
        if self._findings.add(HANDSHAKE, note.handshake_trouble, remedy, address(name)):
            self._say(HANDSHAKE, {"name": name, "message": note.handshake_trouble})  # M-06: never silent
        return False

    def unrouted(self, name: str) -> None:
        note = self._notes[name]
        note.handshake_trouble = ""
        self._findings.clear(HANDSHAKE, address(name))

    # ---- the ladder of M-88

    def watch(self, name: str, facts: ChainFacts) -> None:
        self._watch_kept(name, facts)
        self._watch_shown(name, self._notes[name].shown)

    def _watch_kept(self, name: str, facts: ChainFacts) -> None:
        reached = proofs.rung(facts.leaf.not_before_s, facts.not_after_s, self._now_s())
        if reached in ("fresh", "due"):
            self._findings.clear(EXPIRING, address(name))
            return
        why = self._notes[name].trouble or "no other one was requested yet"
        verb = "has expired" if reached == "expired" else "expires"
        message = f"the certificate for {name} {verb} at {moment(facts.not_after_s)} and is not renewed: {why}"
        remedy = "fix what keeps it from being issued (`holdfast edge status`); then it is renewed automatically"
        if self._findings.add(EXPIRING, message, remedy, address(name)):
            self._say(EXPIRING, {"name": name, "message": message})

    def _watch_shown(self, name: str, shown: CertificateFacts | None) -> None:
        if shown is None or proofs.rung(shown.not_before_s, shown.not_after_s, self._now_s()) not in _TOO_OLD:
            self._findings.clear(STALE, address(name))
            return
        message = f"the certificate that clients are shown for {name} ends at {moment(shown.not_after_s)}"
        remedy = "`holdfast sync` applies it again; if it stays: `holdfast edge status`"
        if self._findings.add(STALE, message, remedy, address(name)):
            self._say(STALE, {"name": name, "message": message})


def address(name: str) -> str:
    return f"certificate.{name}"


def moment(at_s: float) -> str:
    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _other(digest: str, held: Held | None) -> str:
    if not digest:
        return "no certificate"
    current = f"the current one is {held.facts.leaf.digest[:12]}…" if held is not None else "there is no current one"
    return f"the certificate {digest[:12]}…, {current}"
