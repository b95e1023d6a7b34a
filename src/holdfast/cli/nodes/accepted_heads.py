"""Compare the hub's head with what nodes signed as accepted: a fresh command line knows no other head (X15)."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from holdfast.errors import Conflict, Corrupt, HoldfastError
from holdfast.model.applied import Applied
from holdfast.model.revision import Head, digest_of
from holdfast.ports.hub_link import FleetReader, HubReader

if TYPE_CHECKING:
    from holdfast.model.verified_report import VerifiedReport
    from holdfast.trust.reports import Reports


def verified(hub: HubReader | None, applied: Applied | None, now_s: float) -> "Reports | None":
    """What nodes report, for a command that drafts a revision on this head. None for a ledger directory."""
    if hub is None or applied is None or not isinstance(hub, FleetReader):
        return None
    from holdfast.trust import reports  # it verifies signatures: an offline plan need not load it

    answer = hub.nodes()
    found = reports.verify(answer, applied, now_s)
    _check(hub, applied, found.nodes.values(), answer.chain)
    return found


def _check(hub: HubReader, applied: Applied, nodes: Iterable["VerifiedReport"], chain: Collection[Head]) -> None:
    """`chain` is the hub's word, as its links would be: it saves the request for them."""
    accepted = {node.view.name: node.pulse.accepted for node in nodes if node.pulse is not None}
    others = {name: head for name, head in accepted.items() if head.number and head != applied.head}
    if not others:
        return
    newest = max(others.values(), key=lambda head: head.number)
    names = _names(others, newest)
    if newest.number > applied.head.number and hub.status().head.number >= newest.number:
        raise Conflict(
            f"revision {newest.number} was applied while this command ran",
            remedy="run the same command again",
            code="stale_base",
        )
    if newest.number > applied.head.number:
        raise _wrong(
            f"{names} signed that revision {newest.number} is accepted, but the ledger ends with revision "
            f"{applied.head.number}: it was rolled back",
            names,
            "rolled_back",
        )
    for head in sorted(set(others.values()), key=lambda head: -head.number):
        if head.number == applied.head.number or not (head in chain or _in_chain(hub, head)):
            names = _names(others, head)
            raise _wrong(
                f"{names} accepted another revision {head.number} than the ledger has (a fork)", names, "forked"
            )


def _names(accepted: Mapping[str, Head], head: Head) -> str:
    return ", ".join(sorted(name for name, one in accepted.items() if one == head))


def _in_chain(hub: HubReader, head: Head) -> bool:
    """A rebuilt ledger does not have its first revisions any more, which proves nothing."""
    try:
        links = hub.links(head.number, head.number)
    except HoldfastError:
        return True
    return all(digest_of(link.header_bytes) == head.digest for link in links)


def _wrong(message: str, names: str, code: str) -> Corrupt:
    return Corrupt(
        message,
        remedy="do not apply; restore the newest ledger from a backup, or rebuild it from the nodes: holdfast import "
        f"ledger --help; only if {names} is wrong and all other nodes agree: holdfast node revoke NAME",
        code=code,
    )
