"""A fleet whose hub lost its ledger: what its nodes hold, accepted as an agent accepts it."""

from msgspec.structs import replace

from holdfast.adapters.acceptance.memory import MemoryAcceptance
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.hub.ledger.revisions import Revisions
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.fleet import AlertTarget, Fleet, Policy, Storage
from holdfast.model.manifest import NodeManifest
from holdfast.model.record import Pin
from holdfast.model.revision import NodeIdentity
from holdfast.planning.plan import Inputs, plan
from holdfast.ports.acceptance import Accepted
from holdfast.ports.ledger_store import Transaction
from tests.fleets.build import mailbox, operator_signer, signed, small_fleet


def node_identity(name: str) -> NodeIdentity:
    return NodeIdentity(operator_signer(name)[0].key, canonical.digest(name.encode()))


def rich_fleet(version: int = 1) -> Fleet:
    """Two nodes, a service on each, policies of both kinds, storage and an alert."""
    base = small_fleet({"a": version, "b": 1, "old": 1}, ("w1", "w2"))
    homes = {"a": "w1", "b": "w2", "old": "w2"}
    return replace(
        base,
        services={name: replace(service, node=homes[name]) for name, service in base.services.items()},
        policies={
            "all": Policy("all", b"permit;", ("fleet",)),
            "one": Policy("one", b"forbid;", ("service.b",)),
        },
        storage={"nas": Storage("nas", "nfs", "server:/x")},
        alerts={"chat": AlertTarget("chat", webhook="https://a.test/x")},
    )


def lived_in(fleet: Fleet | None = None) -> Revisions:
    """A hub with some history: founded, nodes recorded, something removed, something changed."""
    fleet = fleet or rich_fleet()
    hub = mailbox()
    hub.commit(signed(plan(fleet, None)))
    known = Inputs(identities={name: node_identity(name) for name in fleet.nodes})
    hub.commit(signed(plan(fleet, hub.applied(), known)))
    kept = replace(fleet, services={name: one for name, one in fleet.services.items() if name != "old"})
    if kept.services != fleet.services:
        hub.commit(signed(plan(kept, hub.applied())))
    return hub


def accepted_by(hub: Revisions, node: str, since: int = 1) -> MemoryAcceptance:
    """What this node holds after it followed the hub from revision `since` on."""
    applied = hub.applied()
    assert applied is not None
    links = hub.links(since, applied.head.number)
    text = hub.blob(applied.header.manifests[node])
    assert text is not None
    manifest = canonical.decode(text, NodeManifest, "a manifest")
    entries = (manifest.own, *manifest.services.values(), *manifest.policies.values(), *manifest.storage.values())
    digests = {manifest.settings, *(entry.digest for entry in entries)}
    blobs = {digest: content for digest in digests if (content := hub.blob(digest)) is not None}
    found = MemoryAcceptance()
    found.accept(links, Accepted(applied.fleet_id, applied.head, links[-1], text, text), blobs)
    return found


def empty_ledger(fleet_id: str) -> MemoryStore:
    store = MemoryStore()
    store.commit(Transaction(expect={}, put={keys.PIN: canonical.encode(Pin(keys.FORMAT, fleet_id))}))
    return store
