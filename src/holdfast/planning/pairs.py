"""Which node may ask which other node for what: the pairs that a resource table means, and their checks. Pure."""

from collections.abc import Iterator, Mapping

from msgspec import UNSET

from holdfast.errors import Invalid
from holdfast.model.fleet import Node
from holdfast.model.need import Pair, Provides, Want
from holdfast.model.revision import Entry, Table
from holdfast.planning import providers
from holdfast.planning.complaint import Complaint
from holdfast.planning.kinds.kind import read
from holdfast.planning.unsound import Unsound


def of_entries(entries: Mapping[str, Entry]) -> tuple[Pair, ...]:
    """Of every active service with needs, sorted by service and need. `entries`: by address."""
    found = (pair for address, entry in entries.items() if entry.wants for pair in _of_entry(address, entry))
    return tuple(sorted(found, key=lambda pair: (pair.service, pair.need)))


def _of_entry(address: str, entry: Entry) -> Iterator[Pair]:
    if entry.node is UNSET or not entry.containers:
        return
    for name, want in entry.wants.items():
        yield Pair(
            address.removeprefix("service."),
            name,
            want.type,
            entry.node,
            want.provider,
            entry.epoch,
            dict(want.params),
            dict(want.facts),
        )


def provider_of(want: Want) -> str:
    """The address of the [[provides]]."""
    return f"provides.{want.provider}.{want.type}"


def users(table: Table, provides: str) -> tuple[str, ...]:
    """`service.web (need db)` for each need that uses it."""
    return tuple(
        f"{address} (need {name})"
        for address, entry in sorted(table.entries.items())
        for name, want in sorted(entry.wants.items())
        if provider_of(want) == provides
    )


# ---- checks ---------------------------------------------------------------------------------------------------------


def require(before: Table, after: Table, contents: Mapping[str, bytes]) -> None:
    """Of a plan, in words with a remedy."""
    for complaint in complaints(before, after, contents):
        raise Invalid(complaint.what, remedy=complaint.remedy, code="no_provider")


def check(before: Table, after: Table, contents: Mapping[str, bytes]) -> None:
    for complaint in complaints(before, after, contents):
        raise Unsound(complaint.what)


def complaints(before: Table, after: Table, contents: Mapping[str, bytes]) -> Iterator[Complaint]:
    """What a change breaks between services, providers and nodes. What did not change is not read."""
    changed = {address for address, entry in after.entries.items() if before.entries.get(address) != entry}
    changed |= before.entries.keys() - after.entries.keys()
    for address, entry in after.entries.items():
        if address.startswith("provides.") and f"node.{entry.node}" in changed:
            yield from _of_role(address, str(entry.node), after, contents)
        for name, want in entry.wants.items():
            involved = {address, provider_of(want), f"node.{entry.node}", f"node.{want.provider}"}
            if involved & changed:
                yield from _of_want(f"the need {name} of {address}", address, entry, want, after, contents)


def _of_role(address: str, node: str, table: Table, contents: Mapping[str, bytes]) -> Iterator[Complaint]:
    home = table.entries.get(f"node.{node}")
    if home is None or "provider" not in read(contents, home, f"node.{node}", Node).roles:
        remedy = f"restore the role of {node} in fleet.toml, or remove the [[provides]] too"
        yield Complaint((), f"{address} is of {node}, which is not a provider", remedy)


def _of_want(
    what: str, address: str, entry: Entry, want: Want, table: Table, contents: Mapping[str, bytes]
) -> Iterator[Complaint]:
    home = provider_of(want)
    given = table.entries.get(home)
    if given is None:
        remedy = "with that [[provides]] in fleet.toml: holdfast apply"
        yield Complaint((), f"{what} is to come from {home}, which is not applied", remedy)
        return
    provides = read(contents, given, home, Provides)
    if address.removeprefix("service.") not in provides.services:
        remedy = "with the service in services of that [[provides]] in fleet.toml (grade destroy): holdfast apply"
        yield Complaint((), f"{what} is to come from {home}, which does not list the service as applied", remedy)
    elif want.facts != providers.facts(provides):
        yield Complaint((), f"{what} has other facts than {home} as it is applied", "holdfast apply")
    for name in sorted({str(entry.node), want.provider} if entry.containers else set()):
        node = table.entries.get(f"node.{name}")
        calls = read(contents, node, f"node.{name}", Node).peer_calls if node is not None else "declared"
        if calls != "declared":
            remedy = (
                f"remove peer_calls of {name} from fleet.toml, or the need; calls through the hub are not built yet"
            )
            yield Complaint((), f'{what} needs calls between nodes, and {name} has peer_calls = "{calls}"', remedy)


def require_unused(after: Table, applied: Table) -> None:
    """Its secret is needed until the last credential is revoked, so the needs go first."""
    for address in applied.of_kind("provides"):
        home = f"provides.{address}"
        if home not in after.entries and (using := users(applied, home)):
            raise Invalid(
                f"this plan removes {home}, which is in use: {', '.join(using[:8])}{' …' if len(using) > 8 else ''}",
                remedy="restore that [[provides]], remove the needs first and apply; it can go when its node has "
                "revoked their credentials",
                code="provider_in_use",
            )
