"""Build the keeper of backups, and the watch over their targets."""

from collections.abc import Callable

from msgspec import Struct

from holdfast.adapters.calendar.cronsim import CronCalendar
from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.backups.books import Books
from holdfast.agent.backups.declared import Declarations
from holdfast.agent.backups.dumps.methods import Methods
from holdfast.agent.backups.fetching import Fetching
from holdfast.agent.backups.generations import Generations
from holdfast.agent.backups.initialised import Initialised
from holdfast.agent.backups.keeper import Backups
from holdfast.agent.backups.loading import Loading
from holdfast.agent.backups.making import Making
from holdfast.agent.backups.notes import Notes
from holdfast.agent.backups.pruning import Proven, Pruning
from holdfast.agent.backups.restores.initialising import Initialising
from holdfast.agent.backups.restores.restoring import Restoring
from holdfast.agent.backups.restores.under_way import UnderWay
from holdfast.agent.backups.restores.way_back import WayBack
from holdfast.agent.backups.rounds import Rounds
from holdfast.agent.backups.runs import Runs
from holdfast.agent.backups.sources import Sources
from holdfast.agent.backups.store import Store
from holdfast.agent.backups.targets.attached import Targets
from holdfast.agent.backups.targets.copying import Copying
from holdfast.agent.backups.targets.spread import Nearest, Proving, Spread
from holdfast.agent.backups.targets.watching import TargetWatch
from holdfast.agent.backups.times import DeclaredTimes
from holdfast.agent.orders.order_steps import OrderSteps
from holdfast.agent.services.door import Vouch
from holdfast.agent.wake import Wake
from holdfast.model.container import Part
from holdfast.wiring.agent_parts import Common, Ports, ServiceSide


class BackupSide(Struct, frozen=True):
    """The keepers of backups and their targets, and those of their parts that drills and moves use."""

    keeper: Backups
    watch: TargetWatch
    books: Books
    store: Store
    primary: Store
    fetching: Fetching
    declared: Declarations
    loading: Loading
    times: DeclaredTimes
    nearest: Fetching
    ways: WayBack


def side(
    ports: Ports, common: Common, accepting: Accepting, services: ServiceSide, vouch: Vouch, proven: Proven
) -> BackupSide:
    """`proven` answers the backups that drills have verified."""
    fleet, node, own, changed = common.member.fleet, common.member.node, ports.backups, Wake()
    targets = _targets(ports, vouch, (fleet, node))
    spread, nearest = Store(Spread(targets), fleet), Store(Nearest(targets), fleet)
    times = DeclaredTimes(CronCalendar(), common.time.now_s, common.findings)
    declared = Declarations(ports.acceptance.blob, lambda: accepting.trust, times, own.own.has_any)
    generations = Generations(
        facts=ports.journal, sealer=own.sealer, opener=own.opener, keys=own.keys, fleet=fleet, line=ports.key.line
    )
    making = Making(
        archiver=own.archiver,
        store=spread,
        generations=generations,
        damaged=targets.damaged,
        methods=_methods(ports, services, declared),
        key=ports.key,
        home=own.home,
        data_dir=ports.data_dir,
        node=(fleet, node),
    )
    runs = Runs(
        making=making,
        pruning=Pruning(key=ports.key, fleet=fleet, node=node, vouch=vouch, proven=proven),
        lanes=common.lanes,
        changed=changed,
    )
    fetching = Fetching(store=nearest, archiver=own.archiver, generations=generations, home=own.home)
    loading = _loading(ports, services, declared)
    under_way = UnderWay(common.time.now_s, changed)
    ways = _way_back(ports, services, declared, under_way, loading, fleet)
    books, notes = Books(ports.journal, changed), Notes(common.findings)
    rounds = Rounds(
        declared=declared,
        books=books,
        runs=runs,
        sources=Sources(ports.storage, services.records),
        targets=targets,
        time=common.time,
        notes=notes,
    )
    made = Backups(
        declared=declared,
        books=books,
        rounds=rounds,
        time=common.time,
        notes=notes,
        report=common.report,
        restoring=_restoring(ports, services, declared, fetching, ways, node),
    )
    copying = Copying(targets=targets, source=nearest, key=ports.key, fleet=fleet, node=node)
    watch = TargetWatch(
        targets=targets, copying=copying, declared=declared, time=common.time, notes=notes, changed=changed
    )
    changed.connect(made.show)
    proving = Store(Proving(targets), fleet)
    proof = Fetching(store=proving, archiver=own.archiver, generations=generations, home=own.home)
    return BackupSide(made, watch, books, proving, spread, proof, declared, loading, times, fetching, ways)


def _targets(ports: Ports, vouch: Vouch, member: tuple[str, str]) -> Targets:
    return Targets(
        hub=ports.backups.target,
        open=ports.backups.open,
        content=ports.acceptance.blob,
        secret=ports.secrets.value,
        facts=ports.journal,
        vouch=vouch,
        member=member,
    )


def _methods(ports: Ports, services: ServiceSide, declared: Declarations) -> Methods:
    return Methods(
        door=services.door,
        containers=services.containers,
        prober=ports.prober,
        storage=ports.storage,
        home=ports.backups.home,
        own=ports.backups.own,
        hub=ports.backups.hub,
        timeout_s=lambda: declared.timeout_s,
    )


def _restoring(
    ports: Ports, services: ServiceSide, declared: Declarations, fetching: Fetching, ways: WayBack, node: str
) -> Restoring:
    return Restoring(
        fetching=fetching,
        storage=ports.storage,
        checkpoints=services.checkpoints,
        restore=services.restore,
        steps=OrderSteps(ports.journal, ports.clock),
        ways=ways,
        left=_left(declared),
        node=node,
    )


def _loading(ports: Ports, services: ServiceSide, declared: Declarations) -> Loading:
    initialised = Initialised(
        runtime=ports.runtime, door=services.door, containers=services.containers, prober=ports.drills.prober
    )
    return Loading(services.door, initialised, lambda: declared.timeout_s)


def _way_back(
    ports: Ports,
    services: ServiceSide,
    declared: Declarations,
    under_way: UnderWay,
    loading: Loading,
    fleet: str,
) -> WayBack:
    initialising = Initialising(
        runtime=ports.runtime,
        door=services.door,
        containers=services.containers,
        journal=ports.journal,
        storage=ports.storage,
        data_dir=ports.data_dir,
        fleet=fleet,
    )

    def parts(service: str) -> tuple[Part, ...]:
        wanted = services.wanted.read()
        found = {**wanted.awaited, **wanted.guests} if wanted is not None else {}
        return found[service].parts if service in found else ()

    return WayBack(
        declared=declared,
        initialising=initialising,
        loading=loading,
        under_way=under_way,
        parts=parts,
    )


def _left(declared: Declarations) -> Callable[[str], tuple[str, ...]]:
    def left(service: str) -> tuple[str, ...]:
        wanted = declared.found.get(service)
        return wanted.left if wanted is not None else ()

    return left
