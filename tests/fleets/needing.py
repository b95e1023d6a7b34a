"""Small fleets in which services need what nodes provide."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.model.applied import Applied
from holdfast.model.fleet import Component, Fleet, Node, Service
from holdfast.model.need import Need, Provides
from holdfast.model.plan import Plan
from holdfast.model.revision import Candidate, NodeIdentity
from holdfast.planning.plan import Inputs, plan
from tests.fleets.build import ALICE, digest_pinned, joined, mailbox, sign, small_fleet
from tests.fleets.sealing import node_key, sealed_to

POSTGRES = {"address": "db.example.com:5432", "secret": "admin"}
HANDLER = {"exec": "/opt/make", "sha256": "a" * 64, "fields": "user  token", "user": "maker"}
DB = Provides("p1", "postgres", ("web",), POSTGRES)
TOKENS = Provides("p1", "tokens", ("web", "shop"), HANDLER)
NEED = Need("db", "postgres")
SEALED = sealed_to("p1", "p2")  # other bytes each time


def needing(*needs: Need, node: str = "w1", **more: Any) -> Service:
    return Service((Component("main", digest_pinned("app:1")),), node=node, needs=needs, **more)


def needing_fleet(
    services: Mapping[str, Service] | None = None, provides: tuple[Provides, ...] = (DB,), nodes: tuple[Node, ...] = ()
) -> Fleet:
    """Nodes w1, w2, p1 and p2; service.web on w1 needs db. `nodes` replace those of their names."""
    base = small_fleet({"web": needing(NEED)} if services is None else services, operators=(ALICE,))
    declared = {name: Node(name, ("worker",)) for name in ("w1", "w2")}
    declared |= {name: Node(name, ("worker", "provider")) for name in ("p1", "p2")}
    declared |= {node.name: node for node in nodes}
    known = {name: replace(node, address=f"100.64.0.{at}") for at, (name, node) in enumerate(declared.items(), 1)}
    return replace(base, nodes=known, provides={one.name: one for one in provides}, secrets={"admin": SEALED})


def keyed(fleet: Fleet) -> dict[str, NodeIdentity]:
    """Of every node: the key that `sealed_to` seals to, and the certificate that it would issue from."""
    return {name: replace(one, key=node_key(name)) for name, one in joined(fleet).items()}


def applied(*fleets: Fleet) -> Applied:
    """One revision after another, with every node joined."""
    hub = mailbox()
    for fleet in fleets:
        hub.commit(sign(candidate(plan(fleet, hub.applied(), Inputs(identities=keyed(fleet))))))
    now = hub.applied()
    assert now is not None
    return now


def candidate(found: Plan) -> Candidate:
    assert found.candidate is not None
    return found.candidate
