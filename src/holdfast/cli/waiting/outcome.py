"""Wait for the result of an apply: receipts of nodes, then services, DNS names and public hostnames.

Uses only the nodes' own signed reports. What is not ready in time is reported; nothing needs to be applied again.
"""

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting import receipts
from holdfast.cli.waiting.receipts import Following, Receipts
from holdfast.cli.waiting.report_poll import ReportPoll
from holdfast.cli.waiting.wanted import Wanted
from holdfast.cli.waiting.watching import Watch
from holdfast.model.applied import EMPTY_TABLE, Applied, table_of
from holdfast.model.revision import Head, Table
from holdfast.ports.hub_link import FleetReader, HubReader
from holdfast.status import dns, moves
from holdfast.status.blockers import Blocker
from holdfast.status.dns import DnsObserved
from holdfast.status.edges import settled as edge_settled
from holdfast.status.edges.settled import EdgeObserved
from holdfast.status.moves import MoveObserved
from holdfast.status.services import settled as service_settled
from holdfast.status.services.settled import Observed, ServiceAwaited

if TYPE_CHECKING:
    from holdfast.model.verified_report import VerifiedReport


class Outcome(Struct, frozen=True):
    receipts: Receipts = receipts.NONE
    services: tuple[Observed, ...] = ()
    edges: tuple[EdgeObserved, ...] = ()
    dns: DnsObserved = DnsObserved()
    hindrances: tuple[Blocker, ...] = ()  # why services or hostnames are still waiting
    moves: tuple[MoveObserved, ...] = ()


NOTHING = Outcome()


def wait(hub: HubReader, before: Applied | None, head: Head, box: Toolbox) -> Outcome:
    """`before` is the applied revision at planning time. With a ledger directory there is nothing to wait for."""
    if not isinstance(hub, FleetReader):
        return NOTHING
    found = receipts.following(hub, before, head)
    if found is None:
        return NOTHING
    was, becomes = table_of(before), found.applied.table
    found = _without_dead(hub, found, moves.given_up(was, becomes), box)
    names = dns.awaited(was, becomes, found.affected)
    edges = edge_settled.awaited(was, becomes)
    services = tuple(
        one for one in service_settled.awaited(was, becomes) if one.deployment or one.node not in found.given_up
    )
    wanted = Wanted(services, edges, names, found.affected, moves.awaited(was, becomes))
    if not found.affected and not wanted.nodes:
        return NOTHING
    lookout = ReportPoll(hub, found.applied, tuple(found.affected | wanted.nodes), box)
    watch = Watch(wanted, found.branch, box)
    got = receipts.gather(found, lookout, box, seen=watch.look)
    watch.wait(lookout, found.applied, frozenset(got.missing), got.unheard)
    _warn(watch, box)
    return Outcome(got, watch.services.seen, watch.edges.seen, watch.names.seen, watch.hindrances, watch.moves.seen)


def _without_dead(hub: FleetReader, of: Following, nodes: frozenset[str], box: Toolbox) -> Following:
    """A node that is silent, and whose copy is given up, is not waited for: it stops the copy when it is back."""
    if not nodes:
        return of
    heard = ReportPoll(hub, of.applied, tuple(nodes), box).look()
    dead = frozenset(node for node in nodes if node in heard and heard[node].status != "healthy")
    for node in sorted(dead):
        box.terminal.remark(f"Not waiting for {node}, which is silent: it stops its copy when it is back.")
    return replace(of, affected=of.affected - dead, given_up=dead)


def look_again(hub: HubReader, applied: Applied, only: str | None, box: Toolbox) -> Outcome:
    """For a command with nothing to change: wait for rollouts in progress, and report failed ones.

    A node that is silent, or does not report a service, is not waited for: this command asks nothing of it. Its old
    reports are not a result.
    """
    services = service_settled.applied_now(applied.table, only)
    if not isinstance(hub, FleetReader) or not services:
        return NOTHING
    edges = edge_settled.awaited(EMPTY_TABLE, _only(applied.table, only))
    nodes = Wanted(services, edges, moves=tuple(moves.moves_of(_only(applied.table, only)).values())).nodes
    lookout = ReportPoll(hub, applied, tuple(nodes), box)
    heard = lookout.look()
    silent = [one for one in services if one.node in heard and heard[one.node].status == "unhealthy"]
    under_way = moves.under_way(_only(applied.table, only), heard)
    moving = {one.service for one in under_way}
    awaited = [one for one in services if one not in silent]
    spoken = tuple(one for one in awaited if one.service in moving or _speaks_of(heard.get(one.node), one))
    names = {one.service for one in spoken}
    edges = tuple(one for one in edges if one.service in names)
    watch = Watch(Wanted(spoken, edges, moves=under_way), None, box)
    watch.look(heard, only_new=True)
    watch.wait(lookout, applied, frozenset())
    _warn(watch, box)
    unheard = tuple(service_settled.unheard(one, heard[one.node].age_s) for one in silent)
    seen = (*watch.services.seen, *unheard)
    return Outcome(services=seen, edges=watch.edges.seen, hindrances=watch.hindrances, moves=watch.moves.seen)


def _warn(watch: Watch, box: Toolbox) -> None:
    for one in watch.unanswered():
        box.terminal.warn(f"{one.node}: {one.text}")


def _only(table: Table, address: str | None) -> Table:
    return table if address is None else Table({a: e for a, e in table.entries.items() if a == address})


def _speaks_of(word: "VerifiedReport | None", one: ServiceAwaited) -> bool:
    states = word.report.services if word is not None and word.verified and word.report is not None else ()
    return any(state.service == one.service and state.applied == one.deployment for state in states)
