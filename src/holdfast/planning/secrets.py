"""The sealed secrets of a table: which nodes must be able to open them, and the checks. Pure.

Nothing here can open a secret. Its recipients are read from its outside (model/sealed.py).
"""

from collections.abc import Iterator, Mapping, Set

from msgspec import UNSET, Struct

from holdfast.errors import Corrupt, Invalid
from holdfast.model import canonical, sealed
from holdfast.model.applied import Applied, content, table_of
from holdfast.model.fleet import Fleet, Service
from holdfast.model.ids import TRUST
from holdfast.model.plan import Demand
from holdfast.model.purpose import Purpose, mismatch, resealed, sealed_as
from holdfast.model.revision import Entry, Table
from holdfast.model.sealed import NotSealed, Sealed
from holdfast.model.secret import doubled, names_of, users
from holdfast.planning import formats
from holdfast.planning.unsound import Unsound

NO_RECIPIENTS = Sealed(frozenset(), 0, 0)


def check(address: str, entry: Entry, service: Service, contents: Mapping[str, bytes]) -> None:
    """An entry has exactly the secrets its service names, each in the binary form, which has one spelling."""
    if tuple(sorted(entry.secrets)) != names_of(service):
        raise Unsound(f"the table gives {address} other secrets than it names")
    for component in service.components:
        if shared := doubled(component):
            raise Unsound(f"{address} uses {shared} twice")
    for name, digest in entry.secrets.items():
        read(contents, digest, name, address)


def read(contents: Mapping[str, bytes], digest: str, name: str, address: str) -> Sealed:
    try:
        return sealed.read(content(contents, digest, f"the secret {name} of {address}"))
    except NotSealed as trouble:
        raise Unsound(f"the secret {name} of {address} {trouble}") from None


def tag(table: Table, node: str) -> str | None:
    """The tag of this node's key in sealed values; None while the key is unknown."""
    entry = table.entries.get(f"node.{node}")
    return None if entry is None or entry.identity is UNSET else sealed.tag_of(entry.identity.key)


# ---- who can open what ----------------------------------------------------------------------------------------------


class Reader(Struct, frozen=True, order=True):
    """A node that must be able to open a secret: a service that names it runs or may run there, or it uses a target."""

    secret: str
    node: str
    address: str


def readers(table: Table, only: str | None = None) -> tuple[Reader, ...]:
    """For all resources, or for this one address."""
    found = [
        Reader(secret, node, address)
        for address, entry in table.entries.items()
        if entry.secrets and only in (None, address)
        for node in nodes_of(entry)
        for secret in entry.secrets
    ]
    return tuple(sorted(found))


def nodes_of(entry: Entry) -> frozenset[str]:
    """Nodes that use the secrets of this entry: of a service, or of a target with nodes."""
    bound = entry.applies_to or ()
    homes = () if entry.node is UNSET else (entry.node,)
    return frozenset((*homes, *entry.failover, *(one[5:] for one in bound if one.startswith("node."))))


def shut_out(
    table: Table, found: tuple[Reader, ...], contents: Mapping[str, bytes]
) -> Iterator[tuple[Reader, str | None]]:
    """Readers that cannot open their secret, with the tag of their key; None for a node that has not joined."""
    for reader in found:
        own = tag(table, reader.node)
        digest = table.entries[reader.address].secrets[reader.secret]
        if own is None or own not in read(contents, digest, reader.secret, reader.address).tags:
            yield reader, own


def require_readable(table: Table, contents: Mapping[str, bytes], only: str | None = None) -> tuple[str, ...]:
    """Refuse what a node provably could not open; return warnings for nodes whose key is not known yet."""
    warnings = []
    for reader, own in shut_out(table, readers(table, only), contents):
        if own is not None:
            raise Invalid(_unreadable(reader), remedy=_resealed(reader), code="secret_not_readable")
        warnings.append(
            f"{reader.address}: the secret {reader.secret} is not sealed to {reader.node}, which has not joined yet; "
            f"after it has joined: {_resealed(reader)}, then apply"
        )
    return tuple(warnings)


def doubts(table: Table, contents: Mapping[str, bytes]) -> tuple[str, ...]:
    """The same as warnings only: they must not stop a rollback in an emergency."""
    return tuple(
        f"{_unreadable(reader)}; {_resealed(reader)}, then apply"
        for reader, own in shut_out(table, readers(table), contents)
        if own is not None
    )


def _unreadable(reader: Reader) -> str:
    return (
        f"{reader.node} cannot open the secret {reader.secret}, which {reader.address} needs there: it is not sealed "
        "to that node's key"
    )


def _resealed(reader: Reader) -> str:
    return f"holdfast secret rotate {reader.secret} --keep"


# ---- what it is for -------------------------------------------------------------------------------------------------


class Uses(Struct, frozen=True):
    """What a plan knows of purposes and nodes. A digest that is not in `purposes` was neither opened nor noted: then
    the node judges, which opens it. None: the file names no purpose."""

    purposes: Mapping[str, Purpose | None] = {}  # digest of the sealed file → what is inside
    formats: Mapping[str, int] = {}  # node → the newest format that its verified pulse names


def new_uses(fleet: Fleet, applied: Table) -> dict[str, bytes]:
    """Sealed files that a resource names and does not have yet, by digest."""
    found: dict[str, bytes] = {}
    for address, names in users(fleet).items():
        before = applied.entries.get(address)
        for name in names:
            if name in fleet.secrets:
                digest = canonical.digest(fleet.secrets[name])
                if before is None or digest not in before.secrets.values():
                    found[digest] = fleet.secrets[name]
    return found


def require_purpose(table: Table, applied: Applied | None, known: Uses, only: str | None = None) -> None:
    """Refuse a new use of a secret that its seal does not allow, or that an older agent would misread. A use that is
    applied already stays: a node had it before it read purposes."""
    before = table_of(applied).entries
    fleet = applied.fleet_id if applied else table.entries[TRUST].digest
    for reader in readers(table, only):
        digest, was = table.entries[reader.address].secrets[reader.secret], before.get(reader.address)
        if was is not None and digest in was.secrets.values():
            continue
        if digest in known.purposes:
            purpose, address = known.purposes[digest], sealed_as(reader.address)
            if why := mismatch(purpose, fleet, reader.secret, address):
                raise Invalid(
                    f"the secret {reader.secret} {why}",
                    remedy=f"if {address} may have it: {resealed(purpose, reader.secret, address)}",
                    code="secret_not_for_it",
                )
        if known.formats.get(reader.node, formats.BOUND_SECRETS) < formats.BOUND_SECRETS:
            raise formats.too_old(reader.node, f"the secret {reader.secret} of {reader.address}")


def unused(fleet: Fleet) -> tuple[str, ...]:
    """Warnings, one per secret that is not used."""
    named = {name for names in users(fleet).values() for name in names}
    return tuple(
        f"secrets/{name}.age: no component and no target names it, so no node gets it"
        for name in sorted(fleet.secrets.keys() - named)
    )


# ---- changes --------------------------------------------------------------------------------------------------------


def demands(
    address: str, before: Table, after: Table, old: Mapping[str, bytes], new: Mapping[str, bytes]
) -> Iterator[Demand]:
    """What the secrets of a created or changed resource demand of its signers, from the outside of the sealed bytes.

    The same on a node, which knows only its own part of the table. The home of a service that it is standby for is
    not in that part, so one more recipient may be that home.
    """
    entry, was = after.entries[address], before.entries.get(address)
    known = was.secrets if was is not None else {}
    for name, digest in sorted(entry.secrets.items()):
        if digest in known.values():
            continue
        owner = next((a for a, e in before.entries.items() if a != address and _keeps(a, e, after, digest)), None)
        if owner is not None:
            yield Demand("destroy", f"gives it the secret {name}, which {owner} has")
        if name in known and entry.node is not UNSET:  # a target needs destroy for any change
            home = entry.node
            tags = frozenset(filter(None, (tag(after, home),)))
            unknown_max = 0 if f"node.{home}" in after.entries else 1
            one, other = _seen(old, known[name]), _seen(new, digest)
            if other is not None:  # content that is not sealed is refused elsewhere
                yield from widened(name, one or NO_RECIPIENTS, other, tags, unknown_max)


def widened(name: str, before: Sealed, after: Sealed, home: Set[str], unknown_max: int = 0) -> Iterator[Demand]:
    """A secret may follow its service to another node; any other new recipient widens who can open it.

    Tags name the keys of nodes. Operators are anonymous in sealed bytes: only their number is visible.
    """
    more = len(after.tags - before.tags - home)
    if more > unknown_max or after.anonymous > before.anonymous:
        yield Demand("destroy", f"seals the secret {name} to more recipients than before")


def _keeps(address: str, entry: Entry, after: Table, digest: str) -> bool:
    """Whether another service keeps the secret; one that is removed or drops the secret in this step does not count."""
    stays = after.entries.get(address)
    return digest in entry.secrets.values() and stays is not None and digest in stays.secrets.values()


def _seen(contents: Mapping[str, bytes], digest: str) -> Sealed | None:
    try:
        return sealed.read(content(contents, digest, "a secret"))
    except (NotSealed, Corrupt):
        return None


def words(before: Entry, after: Entry) -> Iterator[str]:
    """What happened to the secrets of a service, for a plan; never a value."""
    for name in sorted(before.secrets.keys() | after.secrets.keys()):
        was, now = before.secrets.get(name), after.secrets.get(name)
        if was != now:
            yield f"secret {name} " + ("added" if was is None else "removed" if now is None else "rotated")
