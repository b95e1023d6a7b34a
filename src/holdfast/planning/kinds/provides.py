"""Kind `provides`: what one node gives to services that need it, and to which. Only that node gets it, with the secret
by which it makes credentials."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET, Struct, UnsetType

from holdfast.model import canonical
from holdfast.model.fleet import Fleet, Node
from holdfast.model.need import Provides
from holdfast.model.plan import Demand
from holdfast.model.revision import Entry, Table
from holdfast.model.secret import secrets_of
from holdfast.planning import harmless, providers, secrets
from holdfast.planning.kinds.kind import (
    Drawing,
    Kind,
    Proposal,
    Section,
    Step,
    check_name,
    destroy,
    document_fields,
    read,
    refuse,
)
from holdfast.planning.unsound import Unsound


class ProvidesEntry(Struct, frozen=True):
    digest: str
    node: str | UnsetType
    secrets: dict[str, str]


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    return {f"provides.{name}": canonical.encode(provides) for name, provides in fleet.provides.items()}


def draft(drawing: Drawing, address: str, digest: str) -> Entry:
    provides = drawing.fleet.provides[address.partition(".")[2]]
    sealed = {name: drawing.sealed[name] for name in secrets_of(provides) if name in drawing.sealed}
    return Entry(digest, node=provides.node, secrets=sealed)


def check(proposal: Proposal) -> None:
    """Whether its services exist does not matter: they may come later."""
    address, entry = proposal.address, proposal.entry
    provides = proposal.document(Provides)
    check_name(address, provides.name)
    refuse(address, providers.complaints(provides))
    if entry.node != provides.node or tuple(entry.secrets) != secrets_of(provides):
        raise Unsound(f"the table gives {address} another node or other secrets than its content names")
    home = proposal.after.entries.get(f"node.{provides.node}")
    if home is None or "provider" not in read(proposal.contents, home, f"node.{provides.node}", Node).roles:
        raise Unsound(f"{address} is of a node that is not a provider")
    for name, digest in entry.secrets.items():
        secrets.read(proposal.contents, digest, name, address)


def demands(step: Step) -> Iterator[Demand]:
    """It decides who gets credentials to what, and for how long one that may still be in use stays valid."""
    before, after = step.before, step.after
    if before is None:
        yield destroy("lets the node give credentials to the services that it lists")
    elif after is None:
        yield destroy("ends what the node provides: credentials that it gave are not revoked any more")
    else:
        if step.is_other_content:
            yield from harmless.demands("provides", *step.documents(Provides))
        if before.secrets != after.secrets:
            yield destroy("changes the secret by which it makes credentials")


def why(before: Entry | None, after: Entry) -> str:
    return f"given by {after.node}" if before is None and after.node is not UNSET else ""


def project(address: str, entry: Entry, table: Table) -> Iterable[tuple[str, Section]]:
    return ((entry.node, "more"),) if entry.node is not UNSET else ()


KIND = Kind(
    name="provides",
    schema=Provides,
    view=ProvidesEntry,
    documents=documents,
    draft=draft,
    check=check,
    demands=demands,
    fields=document_fields,
    why=why,
    project=project,
)
