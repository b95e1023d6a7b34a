"""Walk a chain of revisions from something already trusted. Refuses gaps, forks and unsigned links. Pure."""

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
    """The newest revision a verifier believes, and the trust it established. Head 0: only the fleet id is known."""

    fleet: str
    head: Head
    trust: Trust | None


def anchor(fleet: str, seen: Head, link: Link) -> Anchor:
    """Start from a revision seen before: the link must be that very revision, with the trust its header names."""
    header = link.header
    if header.number != seen.number or digest_of(link.header_bytes) != seen.digest or header.fleet != fleet:
        raise Corrupt(
            f"what is shown as revision {seen.number} is not the revision seen before: the chain was forked",
            remedy="do not apply: restore the ledger that has the revision you know, or ask who else applied",
            code="forked",
        )
    return Anchor(fleet, seen, trust_of(link))


def trust_of(link: Link) -> Trust:
    """The trust beside a header, proven by the digest in it."""
    if canonical.digest(link.trust_bytes) != link.header.trust:
        raise _broken(link.header, "names another trust than the one stored beside it")
    return canonical.decode(link.trust_bytes, Trust, f"the trust of revision {link.header.number}")


def walk(start: Anchor, links: Iterable[Link]) -> Anchor:
    at = start
    for link in links:
        at = step(at, link)
    return at


def step(at: Anchor, link: Link) -> Anchor:
    """One revision further: chain, trust, signature. The grade of its content is judged where the content is."""
    header = link.header
    check_succession(at.fleet, at.head, header)
    trust = trust_of(link)
    if at.trust is None:
        if header.trust != at.fleet:
            raise _broken(header, "does not found the fleet whose id it carries")
        check_signatures(link, "destroy", (), trust)
    elif trust == at.trust:
        check_signatures(link, "apply", (), at.trust)
    else:
        check_signatures(link, "root", (), at.trust, trust)
    return Anchor(at.fleet, Head(header.number, digest_of(link.header_bytes)), trust)


def check_signatures(
    link: Link, grade: Grade, addresses: Sequence[str], trust: Trust, incoming: Trust | None = None
) -> None:
    """What a candidate merely lacks was forged or taken away once it is in a ledger."""
    try:
        approve(link.header_bytes, link.signatures, grade, addresses, trust, incoming)
    except (NotPermitted, SignatureRequired) as trouble:
        raise Corrupt(
            f"revision {link.header.number} is in the ledger without the signatures it needs: {trouble.message}",
            remedy="do not apply; restore the ledger from a backup: somebody changed what was signed",
            code="signature_invalid",
        ) from trouble


def check_succession(fleet: str, head: Head, header: Header) -> None:
    if header.format != FORMAT:
        raise _broken(header, f"has format {header.format}; this release reads format {FORMAT}")
    if header.fleet != fleet:
        raise Corrupt(
            f"revision {header.number} belongs to another fleet ({header.fleet[:12]}…, expected {fleet[:12]}…)",
            remedy="check --hub and --fleet: this directory and that hub do not belong together",
            code="other_fleet",
        )
    if header.number != head.number + 1 or header.parent != head.digest:
        raise _broken(header, f"does not follow revision {head.number}: the chain is forked or has a gap")


def _broken(header: Header, why: str) -> Corrupt:
    return Corrupt(
        f"revision {header.number} {why}",
        remedy="do not apply; compare `holdfast history` with a colleague's, then restore the ledger from a backup",
        code="chain_broken",
    )
