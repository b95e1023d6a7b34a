"""Build the keepers of moves: of the moves, and of the ways between their nodes."""

from collections.abc import Callable

from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Declarations
from holdfast.agent.moves.keeper import Moves
from holdfast.agent.moves.passage import Passage
from holdfast.agent.moves.progress import MoveProgress
from holdfast.agent.moves.section import Section
from holdfast.agent.moves.source.handing_over import HandingOver
from holdfast.agent.moves.source.packing import MovePacking
from holdfast.agent.moves.source.standstill import Standstill
from holdfast.agent.moves.target.arriving import Arriving
from holdfast.agent.moves.target.inheriting import Inheriting
from holdfast.agent.moves.target.landing import Landing
from holdfast.agent.moves.target.readiness import Readiness
from holdfast.agent.moves.target.receiving import Receiving
from holdfast.agent.moves.target.restoring import Restored
from holdfast.agent.moves.tidying import Tidying
from holdfast.agent.moves.ways.keeper import MoveWays
from holdfast.agent.moves.ways.ways import Ways
from holdfast.agent.moves.works import Works
from holdfast.agent.schedules.books import Books as ScheduleBooks
from holdfast.agent.services.data.moved_in import MovedIn
from holdfast.agent.services.door import Vouch
from holdfast.agent.services.holds import Holds
from holdfast.agent.wake import Wake
from holdfast.model.container import Guest
from holdfast.wiring.agent_parts import Common, Ports, ServiceSide
from holdfast.wiring.backups import BackupSide


def keeper(
    ports: Ports,
    common: Common,
    services: ServiceSide,
    backups: BackupSide,
    schedules: ScheduleBooks,
    books: Books,
    changed: Wake,
    vouch: Vouch,
) -> tuple[Moves, MoveWays]:
    fleet, node, own = common.member.fleet, common.member.node, ports.backups
    ways = Ways(own.passage, own.lines)
    waying = MoveWays(ways=ways, lines=own.lines, books=books, say=ports.say)
    declared, progress = Declarations(), MoveProgress(common.time.now_s, node, changed, ways.way)
    passage = Passage(ways, ports.key, fleet, ways.pause)
    packing = MovePacking(
        archiver=own.archiver,
        passage=passage,
        books=books,
        sealer=own.sealer,
        keys=own.keys,
        key=ports.key,
        lanes=common.lanes,
        home=own.home,
        data_dir=ports.data_dir,
        fleet=fleet,
    )
    awaited = _awaited(services)
    readiness = Readiness(ports.runtime, services.images, awaited)
    passports = MovedIn(services.volumes, services.passports)
    landing = Landing(books=books, storage=ports.storage, vouch=vouch, node=node)
    arriving = Arriving(
        declared=declared,
        books=books,
        landing=landing,
        inheriting=Inheriting(passports=passports, records=services.records, go_on=schedules.go_on, awaited=awaited),
        lanes=common.lanes,
        follow=common.follow,
    )
    receiving = Receiving(
        books=books,
        passage=passage,
        archiver=own.archiver,
        opener=own.opener,
        arriving=arriving,
        readiness=readiness,
        progress=progress,
        home=own.home,
        fleet=fleet,
    )
    restored = Restored(
        fetching=backups.nearest,
        ways=backups.ways,
        arriving=arriving,
        readiness=readiness,
        receiving=receiving,
        progress=progress,
    )
    standstill = Standstill(
        services=services.orders,
        holds=Holds(services.wanted.read, services.records, common.services),
        records=services.records,
        containers=services.containers,
        lanes=common.lanes,
        ran=schedules.decided,
    )
    handing_over = HandingOver(
        declared=declared,
        books=books,
        packing=packing,
        passage=passage,
        progress=progress,
        standstill=standstill,
        follow=common.follow,
    )
    tidying = Tidying(
        declared=declared,
        books=books,
        packing=packing,
        receiving=receiving,
        landing=landing,
        passage=passage,
        vouch=vouch,
        node=node,
    )
    works = Works(
        declared=declared,
        books=books,
        handing_over=handing_over,
        receiving=receiving,
        restored=restored,
        arriving=arriving,
        tidying=tidying,
    )
    made = Moves(
        works=works,
        section=Section(declared, books, progress),
        progress=progress,
        keeping=common.keeping,
        report=common.report,
    )
    changed.connect(made.show, waying.wake)
    return made, waying


def _awaited(services: ServiceSide) -> Callable[[str], Guest | None]:
    def answered(service: str) -> Guest | None:
        wanted = services.wanted.read()
        return wanted.awaited.get(service) if wanted is not None else None

    return answered
