"""Small fleets, operators with keys, signed revisions and whole hubs, for tests of every room. Nothing is random."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.high_water.memory import MemoryHighWater
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.signer.memory import MemorySigner
from holdfast.hub.ledger.boot import boot
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model import ssh_key
from holdfast.model.applied import Applied
from holdfast.model.fleet import (
    Backups,
    Component,
    Fleet,
    Grade,
    Node,
    Operator,
    Route,
    Service,
    Settings,
    Thresholds,
    Timeouts,
)
from holdfast.model.plan import Plan
from holdfast.model.revision import NAMESPACE, Candidate, Head, NodeIdentity
from holdfast.planning.plan import plan
from holdfast.ports.clock import Clock
from holdfast.ports.high_water import HighWater
from holdfast.ports.ledger_store import LedgerStore
from holdfast.ports.signer import Signer

START_S = 1_700_000_000.0


def digest_pinned(name: str) -> str:
    """An image reference that needs no registry; another name or version is another digest."""
    return f"registry.example.com/{name.partition(':')[0]}@sha256:{sha256(name.encode()).hexdigest()}"


def operator_signer(name: str, grade: Grade = "root", scope: tuple[str, ...] = ()) -> tuple[Operator, MemorySigner]:
    """The same name always has the same key."""
    signer = MemorySigner(sha256(f"operator {name}".encode()).digest(), name)
    return Operator(name, ssh_key.line(signer.public_key), grade, scope=scope), signer


ALICE, ALICE_SIGNER = operator_signer("alice")


def small_service(name: str, version: int = 1, hostname: str = "") -> Service:
    route = Route("http", 8080, hostname=hostname) if hostname else Route("http", 8080)
    return Service((Component("main", digest_pinned(f"{name}:{version}"), routes=(route,)),))


def small_fleet(
    services: Mapping[str, int | Service] | tuple[str, ...] = ("web",),
    nodes: tuple[str, ...] = ("w1",),
    operators: tuple[Operator, ...] = (ALICE,),
    thresholds: Thresholds = Thresholds(),  # noqa: B008 (frozen value)
    name: str = "small",
) -> Fleet:
    """Services by name: alone, with a version number that becomes part of the image, or written out."""
    wanted = services if isinstance(services, Mapping) else dict.fromkeys(services, 1)
    return Fleet(
        settings=Settings(name),
        thresholds=thresholds,
        operators=operators,
        backups=Backups(),
        timeouts=Timeouts(),
        nodes={node: Node(node, ("worker",)) for node in nodes},
        services={s: v if isinstance(v, Service) else small_service(s, v) for s, v in wanted.items()},
        storage={},
        policies={},
    )


def public_service(name: str, hostname: str = "", **route: Any) -> Service:
    """Small, and reached from the internet; without a hostname it is named after itself."""
    public = Route("http", route.pop("port", 8080), hostname=hostname or UNSET, public=True, **route)
    return Service((Component("main", digest_pinned(name), routes=(public,)),))


def edge_fleet(
    services: Mapping[str, Service] | tuple[str, ...] = ("shop",),
    workers: tuple[str, ...] = ("w1", "w2"),
    edges: tuple[str, ...] = ("e1",),
    operators: tuple[Operator, ...] = (ALICE,),
) -> Fleet:
    """A fleet on the internet: public services (by name alone, or written out), and every node with an address."""
    wanted = services if isinstance(services, Mapping) else {name: public_service(name) for name in services}
    nodes = {name: Node(name, ("edge",)) for name in edges} | {name: Node(name, ("worker",)) for name in workers}
    nodes = {name: replace(node, address=f"100.64.0.{at}") for at, (name, node) in enumerate(nodes.items(), 1)}
    base = small_fleet(wanted, operators=operators)
    settings = Settings("small", internal_zone="svc.test", public_domains=("example.test", "example.org"))
    return replace(base, settings=settings, nodes=nodes)


def joined(fleet: Fleet) -> dict[str, NodeIdentity]:
    """Of every node: a key of its own, and the certificate that it would issue from."""
    found = {}
    for name in fleet.nodes:
        certificate = f"certificate of {name}".encode()
        key = operator_signer(f"node {name}")[0].key
        found[name] = NodeIdentity(key, sha256(certificate).hexdigest(), certificate)
    return found


def signed(planned: Plan, *signers: Signer) -> Candidate:
    """The candidate of a plan that changes something, signed by each; by alice if nobody is named."""
    assert planned.candidate is not None, "nothing changes, so there is nothing to sign"
    return sign(planned.candidate, *signers)


def sign(candidate: Candidate, *signers: Signer) -> Candidate:
    by = signers or (ALICE_SIGNER,)
    return replace(candidate, signatures=tuple(signer.sign(candidate.header, NAMESPACE) for signer in by))


def next_candidate(fleet: Fleet, applied: Applied | None, *signers: Signer) -> Candidate:
    return signed(plan(fleet, applied), *signers)


def mailbox(
    store: LedgerStore | None = None, clock: Clock | None = None, high_water: HighWater | None = None
) -> Revisions:
    """A hub that booted from this store as the daemon would; without one, an empty hub in memory."""
    clock = clock or VirtualClock(START_S)
    store = store or MemoryStore()
    high_water = high_water or MemoryHighWater()
    booted = boot(store, high_water, strict=False)
    return Revisions(store, clock, SeededRandom("hub"), high_water, booted.loaded, booted.findings)


def commit(hub: Revisions, fleet: Fleet, *signers: Signer) -> Head:
    return hub.commit(next_candidate(fleet, hub.applied(), *signers))


def grown_mailbox(revisions: int, store: LedgerStore | None = None, clock: Clock | None = None) -> Revisions:
    """A hub with so many revisions of one service."""
    hub = mailbox(store, clock)
    for version in range(1, revisions + 1):
        commit(hub, small_fleet({"web": version}))
    return hub
