"""Rebuild a lost resource table from the manifests that nodes still hold. Pure.

Nothing is trusted: the result must have the digest that operators signed; otherwise it is refused, and the refusal
names what is missing.
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
    """What the fleet directory has for one address; used only if the digests prove it."""

    entry: Entry
    content: bytes
    holders: frozenset[str] | None  # nodes whose manifest has it; None: every node's
    secrets: tuple[bytes, ...] = ()  # sealed


class Rebuilt(Struct, frozen=True):
    table: Table
    table_bytes: bytes
    contents: dict[str, bytes]  # of every entry
    guessed: tuple[str, ...]  # addresses that no node held; taken from the directory


class Incomplete(Corrupt):
    """A part that no node sent and that the directory does not have."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"the ledger cannot be rebuilt yet: {what}", remedy=remedy, code="salvage_incomplete")


def manifests_at(header: Header, handed: Mapping[str, bytes]) -> dict[str, NodeManifest]:
    """The manifests that this revision names; one from an older revision counts if it has not changed since."""
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
        raise Incomplete("no node has sent its part of the newest revision yet", _wait(absent))
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
    """The edge of a hostname was chosen once; the directory does not have the choice, but the edges do."""
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

    The directory may be newer than the revision, so try with what no node holds, then without.
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
        if content is None:  # empty bytes are a content too
            content = at_hand.get(digest)
        if content is None or canonical.digest(content) != digest:
            lacking.append(address)
        else:
            found[digest] = content
    if lacking:
        raise Incomplete(
            f"the content of {_some(lacking)} is in no node and not in the fleet directory",
            "restore the file as it was applied (from version control), or wait until its node checks in; "
            "then run it again: holdfast import ledger",
        )
    return found


def _unknown(header: Header, absent: Sequence[str]) -> Incomplete:
    if absent:
        return Incomplete(f"revision {header.number} is not complete: {_some(absent)} sent nothing", _wait(absent))
    return Incomplete(
        f"all nodes sent their parts, but together they are not revision {header.number}: what no node holds (alerts) "
        "is not in the fleet directory as it was applied",
        "check out the version of the fleet directory that was applied last, and run the same command with --fleet DIR",
    )


def _wait(absent: Sequence[str]) -> str:
    return (
        f"start the agent (`holdfast agent run`) on {_some(absent)}, let the hub run for a minute, then run the same "
        "command again; for a machine that is lost, use the fleet directory as it was applied last (--fleet DIR)"
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMES_MAX]) + (f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else "")
