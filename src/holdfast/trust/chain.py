"""Verify a chain of revisions from a trusted start. Refuses gaps, forks and unsigned links. Pure."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from holdfast.errors import Corrupt, NotPermitted, SignatureRequired
from holdfast.model import canonical
from holdfast.model.fleet import Grade
from holdfast.model.record import Link
from holdfast.model.revision import FORMAT, Head, Header, digest_of
from holdfast.model.trust import Trust
from holdfast.trust.approval import approve


class Anchor(Struct, frozen=True):
    """The newest revision a verifier accepts, and its trust. Head 0: only the fleet id is known."""

    fleet: str
    head: Head
    trust: Trust | None


def anchor(fleet: str, seen: Head, link: Link) -> Anchor:
    """Start from a revision seen before: the link must be that same revision, with the trust its header names."""
    header = link.header
    if header.number != seen.number or digest_of(link.header_bytes) != seen.digest or header.fleet != fleet:
        raise Corrupt(
            f"revision {seen.number} is not the revision {seen.number} seen before: the chain was forked",
            remedy="do not apply: restore the ledger that has the known revision, or ask who else applied",
            code="forked",
        )
    return Anchor(fleet, seen, trust_of(link))


def trust_of(link: Link) -> Trust:
    """The trust of a header, proven by the digest in the header."""
    if canonical.digest(link.trust_bytes) != link.header.trust:
        raise _broken(link.header, "names another trust than the one stored with it")
    return canonical.decode(link.trust_bytes, Trust, f"the trust of revision {link.header.number}")


def walk(start: Anchor, links: Iterable[Link]) -> Anchor:
    at = start
    for link in links:
        at = step(at, link)
    return at


def step(at: Anchor, link: Link) -> Anchor:
    """Verify one more revision: chain, trust, signature. The grade is checked where the content is known."""
    header = link.header
    check_succession(at.fleet, at.head, header)
    trust = trust_of(link)
    if at.trust is None:
        if header.trust != at.fleet:
            raise _broken(header, "is not the first revision of the fleet whose id it names")
        check_signatures(link, "destroy", (), trust)
    elif trust == at.trust:
        check_signatures(link, "apply", (), at.trust)
    else:
        check_signatures(link, "root", (), at.trust, trust)
    return Anchor(at.fleet, Head(header.number, digest_of(link.header_bytes)), trust)


def check_signatures(
    link: Link, grade: Grade, addresses: Sequence[str], trust: Trust, incoming: Trust | None = None
) -> None:
    """A missing signature on a revision that is already in a ledger means that the ledger was changed."""
    try:
        approve(link.header_bytes, link.signatures, grade, addresses, trust, incoming)
    except (NotPermitted, SignatureRequired) as trouble:
        raise Corrupt(
            f"revision {link.header.number} is in the ledger without the signatures it needs: {trouble.message}",
            remedy="do not apply; restore the ledger from a backup: signed bytes were changed",
            code="signature_invalid",
        ) from trouble


def check_succession(fleet: str, head: Head, header: Header) -> None:
    if header.format != FORMAT:
        raise _broken(header, f"has format {header.format}; this release reads format {FORMAT}")
    if header.fleet != fleet:
        raise Corrupt(
            f"revision {header.number} belongs to another fleet ({header.fleet[:12]}…, expected {fleet[:12]}…)",
            remedy="check --hub and --fleet: this directory and this hub belong to different fleets",
            code="other_fleet",
        )
    if header.number != head.number + 1 or header.parent != head.digest:
        raise _broken(header, f"does not follow revision {head.number}: the chain is forked or has a gap")


def _broken(header: Header, why: str) -> Corrupt:
    return Corrupt(
        f"revision {header.number} {why}",
        remedy="do not apply; compare `holdfast history` with another operator's, then restore a backup of the ledger",
        code="chain_broken",
    )
