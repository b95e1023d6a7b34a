"""The composition of a hub's HTTP interface and its daemon: chooses products and nothing else."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.adapters.http_server.hub import HubServer
from holdfast.adapters.http_server.loop import new_loop
from holdfast.hub.backups.store import BackupStore
from holdfast.hub.daemon import Daemon, Shown
from holdfast.hub.fleet_views import FleetViews
from holdfast.hub.generations.check_ins import GenerationCheckIns
from holdfast.hub.http import limits, openapi
from holdfast.hub.http.admission import Admission
from holdfast.hub.http.authentication import Authentication
from holdfast.hub.http.denials import Denials
from holdfast.hub.http.handlers.audit import Audit
from holdfast.hub.http.handlers.backups import Backups
from holdfast.hub.http.handlers.commits import Commits
from holdfast.hub.http.handlers.description import Description
from holdfast.hub.http.handlers.hub_file import HubFile
from holdfast.hub.http.handlers.moves import Moves
from holdfast.hub.http.handlers.nodes import Nodes, SalvageStore
from holdfast.hub.http.handlers.orders import Orders
from holdfast.hub.http.handlers.revisions import Revisions
from holdfast.hub.http.handlers.revocations import Revocations
from holdfast.hub.http.handlers.status import Status
from holdfast.hub.http.handlers.streams import Streams
from holdfast.hub.http.handlers.tokens import Tokens
from holdfast.hub.http.limiter import Limiter, Rates
from holdfast.hub.http.served_fleet import ServedFleet
from holdfast.hub.http.serving import responses
from holdfast.hub.http.serving.answers import Answers
from holdfast.hub.http.serving.api import Api
from holdfast.hub.http.serving.bodies import Bodies
from holdfast.hub.http.serving.failures import Failures
from holdfast.hub.http.serving.workers import Workers
from holdfast.hub.http.slots import ConnectionSlots
from holdfast.hub.http.tokens import Tokens as TokenBook
from holdfast.hub.nodes.joining import Joining
from holdfast.hub.nodes.registry import Registry
from holdfast.hub.nodes.revocation import Revocations as RevocationDesk
from holdfast.hub.orders import queue
from holdfast.hub.orders.relay import Relay
from holdfast.hub.orders.submission import Orders as OrderDesk
from holdfast.hub.watch_loop import WatchLoop
from holdfast.hub.watched_fleet import WatchedFleet
from holdfast.hub.watchers.standby import Standby
from holdfast.model.order import FETCHES
from holdfast.model.trust import Trust
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.clock import Clock
from holdfast.ports.hub_file_maker import HubFileMaker
from holdfast.ports.hub_link import HubLink
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.nonces import Nonces

if TYPE_CHECKING:
    from collections.abc import Mapping


class HubFleet(Struct, frozen=True):
    """The hub's side of the fleet, in parts: each handler gets those that it calls. `registry` and `standby` are for
    tests."""

    watched: WatchedFleet
    check_ins: GenerationCheckIns
    joining: Joining
    orders: OrderDesk
    revocations: RevocationDesk
    views: FleetViews
    loop: WatchLoop
    registry: Registry
    standby: Standby


class Parts(Struct, frozen=True):
    """What a hub is made of. `hub` has booted."""

    hub: HubLink
    key: IdentityKey
    shown: Shown
    nonces: Nonces
    audit: AuditLog
    tokens: TokenBook
    fleet: HubFleet
    clock: Clock
    salvage: SalvageStore | None = None
    rates: Rates = Rates()
    founding: str = ""  # the fleet this ledger is pinned to
    declared: Trust | None = None  # of a fleet directory that is served unsigned
    backups: BackupStore | None = None  # None: this hub has no disk of its own
    moves: BackupStore | None = None  # the same; objects of moves
    own_file: HubFileMaker | None = None  # the same


def daemon(parts: Parts, host: str, port: int) -> Daemon:
    workers = Workers()
    limiter = Limiter(parts.rates)
    served = ServedFleet(parts.hub.applied, parts.founding, parts.declared)
    authentication = Authentication(
        hub_key=parts.key.line,
        served=served,
        nodes=parts.fleet.watched,
        bearers=parts.tokens,
        nonces=parts.nonces,
        clock=parts.clock,
        read=workers.read,
    )
    api = Api(
        handlers=handlers(parts, limiter),
        admission=Admission(authentication, limiter, parts.clock),
        bodies=Bodies(),
        workers=workers,
        failures=Failures(Denials(parts.audit), parts.key, parts.clock, served.name),
        answers=Answers(),
    )
    server = HubServer(
        api,
        context=parts.shown.context,
        slots=ConnectionSlots(),
        limits=limits.CONNECTION,
        malformed=responses.malformed(),
        host=plain_host(host),
        port=port,
    )
    return Daemon(
        server=server,
        api=api,
        workers=workers,
        fleet=parts.fleet.loop,
        shown=parts.shown,
        ended=parts.fleet.check_ins.ended,
        new_loop=new_loop,
    )


def _ordered(registry: Registry) -> Callable[[str, str], bool]:
    def ordered(node: str, service: str) -> bool:
        member = registry.members.get(node)
        return member is not None and queue.is_ordered(member, f"data.{service}", FETCHES)

    return ordered


def handlers(parts: Parts, limiter: Limiter) -> "Mapping[type, object]":
    """One handler per noun, by its class: routes name theirs."""
    hub, fleet, clock, relay = parts.hub, parts.fleet, parts.clock, Relay()
    made = (
        Description(openapi.document()),
        Revisions(hub, fleet.views),
        Status(hub, fleet.views, fleet.watched),
        Commits(hub, fleet.watched),
        Tokens(parts.tokens, parts.audit),
        Nodes(
            hub=hub,
            joining=fleet.joining,
            check_ins=fleet.check_ins,
            views=fleet.views,
            limiter=limiter,
            clock=clock,
            salvage=parts.salvage,
        ),
        Orders(fleet.orders, relay, clock),
        Streams(relay, clock),
        Revocations(fleet.revocations),
        Audit(fleet.views),
        Backups(hub, parts.backups, _ordered(fleet.registry)),
        Moves(hub, parts.moves),
        HubFile(hub, parts.own_file),
    )
    return {type(handler): handler for handler in made}


def plain_host(host: str) -> str:
    return host.removeprefix("[").removesuffix("]")
