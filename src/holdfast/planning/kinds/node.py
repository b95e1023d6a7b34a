"""Kind `node`: a machine of the fleet, its key and its address. A node gets only its own entry."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET, Struct, UnsetType

from holdfast.errors import Invalid
from holdfast.model import canonical, ssh_key
from holdfast.model.applied import plain
from holdfast.model.fleet import Dns, Fleet, FleetDocument, Node
from holdfast.model.plan import Demand, FieldChange
from holdfast.model.revision import Entry, NodeIdentity, Table
from holdfast.planning import harmless, identity, infrastructure, overlay
from holdfast.planning.edges import proxy_of
from holdfast.planning.fields import differences
from holdfast.planning.kinds.kind import (
    Drawing,
    Kind,
    Proposal,
    Section,
    Step,
    check_name,
    decode,
    destroy,
    refuse,
    settings_of,
)
from holdfast.planning.unsound import Unsound


class NodeEntry(Struct, frozen=True):
    digest: str
    identity: NodeIdentity | UnsetType
    drained: bool
    address: str
    proxy: str
    dns: bool


def documents(fleet: Fleet) -> Mapping[str, bytes]:
    return {f"node.{name}": canonical.encode(node) for name, node in fleet.nodes.items()}


def draft(drawing: Drawing, address: str, digest: str) -> Entry:
    name = address.partition(".")[2]
    known, node = drawing.applied.entries.get(address), drawing.fleet.nodes[name]
    return Entry(
        digest,
        identity=identity.drafted(node, known, drawing.identities.get(name), drawing.revoked),
        drained=known is not None and known.drained,
        address=drawing.addresses[name],
        proxy=proxy_of(node),
        dns=serves_names(name, drawing.fleet.dns),
    )


def serves_names(node: str, dns: Dns) -> bool:
    """Every node serves internal names, unless the fleet names those that do or turns DNS off (C-20)."""
    return dns.driver != "none" and (not dns.nodes or node in dns.nodes)


# ---- checks of a table


def check(proposal: Proposal) -> None:
    node = proposal.document(Node)
    _check_key(proposal.address, node, proposal.entry)
    if proposal.fleet is not None or proposal.entry.proxy:
        fleet = proposal.fleet or settings_of(proposal.after, proposal.contents)
        check_address(proposal.address, node, proposal.entry, fleet)


def _check_key(address: str, node: Node, entry: Entry) -> None:
    check_name(address, node.name)
    known = entry.identity
    if known is UNSET:
        if node.key:
            raise Unsound(f"{address} declares a key that the table does not pin")
        return
    try:
        key = ssh_key.parse(known.key)
        declared = ssh_key.line(ssh_key.parse(node.key)) if node.key else known.key
    except Invalid as trouble:
        raise Unsound(f"the key of {address} is unusable: {trouble.message}") from trouble
    if key.type != "ssh-ed25519" or ssh_key.line(key) != known.key:
        raise Unsound(f"the key of {address} is not a plain ssh-ed25519 line")
    if declared != known.key:
        raise Unsound(f"{address} declares one key and the table pins another")
    if known.certificate and canonical.digest(known.certificate) != known.issuer:
        raise Unsound(f"the table gives {address} another issuing certificate than it pins")


def check_address(address: str, node: Node, entry: Entry, fleet: FleetDocument) -> None:
    """The node's address, proxy and names must be exactly what its declaration and the fleet's settings mean."""
    if entry.address != node.address and node.address:
        raise Unsound(f"{address} declares one address and the table has another")
    if entry.address and (wrong := overlay.outside(entry.address, fleet.settings.overlay_cidr)):
        raise Unsound(f"{address}: {wrong}")
    if entry.proxy != proxy_of(node) or entry.dns != serves_names(node.name, fleet.dns):
        raise Unsound(f"the table gives {address} another proxy or other names to serve than it declares")
    refuse(address, infrastructure.node_complaints(node, fleet.settings, fleet.overlay))


# ---- who must sign


# From the least to the most: a relayed call goes through the hub's queue, a declared one directly to a peer.
_PEER_CALLS = ("off", "relay", "declared")


def demands(step: Step) -> Iterator[Demand]:
    if step.before is None:
        yield destroy("adds a node")
        node = decode(step.content_after(), Node)
        yield from node_demands(Node("x", node.roles, key=node.key), node)
    elif step.after is None:
        yield destroy("decommissions a node")
    else:
        if identity.widens(step.before, step.after):  # services, secrets and names depend on its key
            yield destroy(identity.why(step.before, step.after))
        if step.is_other_content:
            before, after = step.documents(Node)
            found = tuple(node_demands(before, after))
            yield from found or (harmless.demands("nodes", before, after) if step.rules != "first" else ())


def node_demands(before: Node, after: Node) -> Iterator[Demand]:
    """By the newest rules every other key needs destroy as well, unless harmless.py has it (X22)."""
    if after.key != before.key:
        yield destroy("changes the node's key")
    if set(after.roles) - set(before.roles):  # a role decides which names a node may hold certificates for
        yield destroy(f"gives the node more roles ({', '.join(sorted(set(after.roles) - set(before.roles)))})")
    if after.orphans == "remove" != before.orphans:
        yield destroy('lets the agent remove orphans (orphans = "remove")')
    if after.orphans_foreign and not before.orphans_foreign:
        yield destroy("lets the agent remove containers it did not make (orphans_foreign)")
    if after.direct == "on" != before.direct:
        yield destroy('opens the node for direct control (direct = "on")')
    if after.link == "dial" != before.link:  # the node gets a listener, and the hub may connect to it
        yield destroy('lets the hub call the node (link = "dial")')
    if after.proxy == "public" != before.proxy and "edge" not in before.roles:  # an edge is public anyway
        yield destroy('opens the node\'s proxy to the internet (proxy = "public")')
    if _PEER_CALLS.index(after.peer_calls) > _PEER_CALLS.index(before.peer_calls):
        yield destroy(f"lets the agent call peers more freely (peer_calls = {after.peer_calls})")


# ---- what a plan shows


def fields(step: Step) -> Iterator[FieldChange]:
    before, after = step.before, step.after
    if before is None or after is None:
        return
    effective = [name for name in ("address", "proxy", "dns") if getattr(before, name) != getattr(after, name)]
    if step.is_other_content:
        declared = differences(plain(step.content_before()), plain(step.content_after()))
        yield from (field for field in declared if field.path not in effective)  # once, with what is in force
    if before.identity != after.identity:
        yield from differences({"identity": _identity(before)}, {"identity": _identity(after)})
    if before.drained != after.drained:
        yield FieldChange("drained", before.drained, after.drained)
    for name in effective:
        yield FieldChange(name, getattr(before, name) or None, getattr(after, name) or None)


def _identity(entry: Entry) -> dict[str, str]:
    known = entry.identity
    if known is UNSET:
        return {}
    issuer = {"issuer": known.issuer} if known.issuer else {}
    return {"fingerprint": identity.short(known.key), "key": known.key, **issuer}


def why(before: Entry | None, after: Entry) -> str:
    reasons = [identity.why(before, after)]
    if before is not None and before.address != after.address:
        reasons.append(f"is reached at {after.address}" if after.address else "has no known address any more")
    if before is not None and before.proxy and before.proxy != after.proxy:
        reasons.append(f"its proxy becomes {after.proxy}")
    if (before is not None and before.drained) != after.drained:
        drained = "is drained: takes no new services, and those without data move away"
        reasons.append(drained if after.drained else "takes services again")
    return "; ".join(filter(None, reasons))


def project(address: str, entry: Entry, table: Table) -> Iterable[tuple[str, Section]]:
    return ((address.partition(".")[2], "own"),)


KIND = Kind(
    name="node",
    schema=Node,
    view=NodeEntry,
    documents=documents,
    draft=draft,
    check=check,
    demands=demands,
    fields=fields,
    why=why,
    project=project,
)
