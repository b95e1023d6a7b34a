"""A lost resource table put together again from the manifests nodes still hold. Pure.

Nothing is believed: the result must have the digest that operators signed, or it is refused and what is missing is
named.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.ids import FLEET, TRUST
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Entry, Header, Table, Tombstone

NAMES_MAX = 8


class Spare(Struct, frozen=True):
    """What the fleet directory says of one address: good enough only if the digests prove it."""

    entry: Entry
    content: bytes
    holders: frozenset[str] | None  # nodes whose manifest has it; None: every node's
    secrets: tuple[bytes, ...] = ()  # as they are sealed


class Rebuilt(Struct, frozen=True):
    table: Table
    table_bytes: bytes
    contents: dict[str, bytes]  # of every entry
    guessed: tuple[str, ...]  # addresses that no node held; the directory had them


class Incomplete(Corrupt):
    """Something that no node handed over and the directory does not have either."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"the ledger cannot be rebuilt yet: {what}", remedy=remedy, code="salvage_incomplete")


def manifests_at(header: Header, handed: Mapping[str, bytes]) -> dict[str, NodeManifest]:
    """Those that are exactly what this revision says of their node; an older one is as good if nothing changed."""
    return {
        node: canonical.decode(text, NodeManifest, f"the manifest of {node}")
        for node, text in handed.items()
        if node in header.manifests and canonical.digest(text) == header.manifests[node]
    }


def rebuild(
    header: Header, handed: Mapping[str, bytes], contents: Mapping[str, bytes], spares: Mapping[str, Spare]
) -> Rebuilt:
    """`handed`: node → manifest; `contents`: by digest; `spares`: by address, from the fleet directory."""
    manifests = manifests_at(header, handed)
    absent = sorted(header.manifests.keys() - manifests.keys())
    if not manifests and header.manifests:
        raise Incomplete("no node handed over its part of the newest revision yet", _wait(absent))
    known, stones = _known(header, manifests)
    spares = _with_edges(spares, manifests)
    for guess in _guesses(known, absent, spares):
        table = Table({**known, **{address: spares[address].entry for address in guess}}, stones)
        table_bytes = canonical.encode(table)
        if canonical.digest(table_bytes) == header.resources:
            return Rebuilt(table, table_bytes, _contents(table, contents, spares), guess)
    raise _unknown(header, absent)


def _known(header: Header, manifests: Mapping[str, NodeManifest]) -> tuple[dict[str, Entry], dict[str, Tombstone]]:
    entries: dict[str, Entry] = {TRUST: Entry(header.trust)}
    stones: dict[str, Tombstone] = {}
    for node, manifest in manifests.items():
        entries[FLEET] = Entry(manifest.settings)
        entries[f"node.{node}"] = manifest.own
        entries |= manifest.held
        stones |= manifest.retired
    return entries, stones


def _with_edges(spares: Mapping[str, Spare], manifests: Mapping[str, NodeManifest]) -> dict[str, Spare]:
    """Which edge answers for a hostname was chosen once, and the directory does not know it; the edges do."""
    chosen = {hostname: node for node, manifest in manifests.items() for hostname in manifest.edge}
    found = dict(spares)
    for address, spare in spares.items():
        if spare.entry.public:
            public = {
                hostname: replace(route, edge=chosen.get(hostname, route.edge))
                for hostname, route in spare.entry.public.items()
            }
            found[address] = replace(spare, entry=replace(spare.entry, public=public))
    return found


def _guesses(
    known: Mapping[str, Entry], absent: Sequence[str], spares: Mapping[str, Spare]
) -> Iterator[tuple[str, ...]]:
    """What the directory may add: what only absent nodes hold, and what no node holds (alerts).

    The directory may be newer than the revision: with what no node holds first, then without.
    """
    unknown = {address: spare for address, spare in spares.items() if address not in known}
    lost = [address for address, spare in unknown.items() if spare.holders and spare.holders & set(absent)]
    unheld = [address for address, spare in unknown.items() if spare.holders == frozenset()]
    for more in (unheld, []) if unheld else ([],):
        yield tuple(sorted(lost + more))


def _contents(table: Table, contents: Mapping[str, bytes], spares: Mapping[str, Spare]) -> dict[str, bytes]:
    at_hand = {spare.entry.digest: spare.content for spare in spares.values()}
    at_hand |= {canonical.digest(sealed): sealed for spare in spares.values() for sealed in spare.secrets}
    found: dict[str, bytes] = {}
    lacking: list[str] = []
    for address, digest in ((address, digest) for address, entry in table.entries.items() for digest in entry.needs):
        content = contents.get(digest)
        if content is None:  # an empty one is a content too
            content = at_hand.get(digest)
        if content is None or canonical.digest(content) != digest:
            lacking.append(address)
        else:
            found[digest] = content
    if lacking:
        raise Incomplete(
            f"nobody has the content of {_some(lacking)}",
            "put the file back as it was applied (version control has it), or wait until its node checks in; "
            "then run holdfast import ledger again",
        )
    return found


def _unknown(header: Header, absent: Sequence[str]) -> Incomplete:
    if absent:
        return Incomplete(
            f"revision {header.number} is not known whole: {_some(absent)} did not hand over", _wait(absent)
        )
    return Incomplete(
        f"every node handed over, but together they are not revision {header.number}: what no node holds (alerts) "
        "is not in the fleet directory as it was applied",
        "check out the version of the fleet directory that was applied last (--fleet DIR), and run the same again",
    )


def _wait(absent: Sequence[str]) -> str:
    return (
        f"start holdfast agent run on {_some(absent)} and let the hub run for a minute, then run the same again; a "
        "machine that is gone for good can be stood in for by the fleet directory as it was applied last (--fleet DIR)"
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMES_MAX]) + (f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else "")
