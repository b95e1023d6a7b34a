"""Follow a history revision by revision, believing nothing: chain, signatures, manifests, grades, scopes. Reads only.

The audit of a ledger and the command line that meets a newer head ask the same questions here.
"""

from collections.abc import Mapping

from msgspec import Struct

from holdfast.model.applied import EMPTY_TABLE, content
from holdfast.model.record import Link
from holdfast.model.revision import NO_HEAD, Head, Table, decode_table
from holdfast.model.rules import RulesSince
from holdfast.planning.header import check_header
from holdfast.planning.succession import judge
from holdfast.trust.chain import Anchor, anchor, check_signatures, step, trust_of


class Followed(Struct, frozen=True):
    """How far a verifier has come: the revision, the trust and the table it believes."""

    at: Anchor
    table: Table


def from_the_start(fleet: str) -> Followed:
    return Followed(Anchor(fleet, NO_HEAD, None), EMPTY_TABLE)


def from_seen(fleet: str, seen: Head, link: Link, contents: Mapping[str, bytes]) -> Followed:
    """Begin at a revision believed before; everything it leads to is bound by its digest."""
    return Followed(anchor(fleet, seen, link), table_of(link, contents))


def follow(so_far: Followed, link: Link, contents: Mapping[str, bytes], since: RulesSince) -> Followed:
    """One revision further, judged by the rules that hold for its number since the verifier met them."""
    reached = step(so_far.at, link)  # an operator with that right signed it: only now read its content
    table = table_of(link, contents)
    check_header(link.header, table)
    number = link.header.number
    judged = judge(so_far.table, table, contents, contents, number, rules=since.of(number))
    trust = trust_of(link)
    current = so_far.at.trust or trust
    incoming = trust if so_far.at.trust is not None and trust != so_far.at.trust else None
    check_signatures(link, judged.grade, judged.covers, current, incoming)
    return Followed(reached, table)


def pass_over(so_far: Followed, link: Link, contents: Mapping[str, bytes], has_table: bool) -> Followed:
    """One revision further where the table before it was not kept: chain and signatures, but no grades."""
    reached = step(so_far.at, link)
    if not has_table:
        return Followed(reached, EMPTY_TABLE)
    table = table_of(link, contents)
    check_header(link.header, table)
    return Followed(reached, table)


def table_of(link: Link, contents: Mapping[str, bytes]) -> Table:
    header = link.header
    return decode_table(content(contents, header.resources, f"the table of revision {header.number}"))
