"""Build the keepers of moves: of the moves, and of the ways between their nodes."""

from collections.abc import Callable

from msgspec import Struct

from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Declarations
from holdfast.agent.moves.keeper import Moves
from holdfast.agent.moves.passage import Passage
from holdfast.agent.moves.progress import MoveProgress
from holdfast.agent.moves.section import Section
from holdfast.agent.moves.source.handing_over import HandingOver
from holdfast.agent.moves.source.looking_back import LookingBack
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


class _Parts(Struct, frozen=True):
    """What both sides of a move use."""

    ports: Ports
    common: Common
    services: ServiceSide
    schedules: ScheduleBooks
    books: Books
    vouch: Vouch
    declared: Declarations
    progress: MoveProgress
    passage: Passage


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
    own = ports.backups
    ways = Ways(own.passage, own.lines)
    waying = MoveWays(ways=ways, lines=own.lines, books=books, say=ports.say)
    parts = _Parts(
        ports=ports,
        common=common,
        services=services,
        schedules=schedules,
        books=books,
        vouch=vouch,
        declared=Declarations(books.is_bare),
        progress=MoveProgress(common.time.now_s, common.member.node, changed, ways.way),
        passage=Passage(ways, own.passage, ports.key, common.member.fleet, ways.pause),
    )
    made = Moves(
        works=_works(parts, backups),
        section=Section(parts.declared, books, parts.progress),
        progress=parts.progress,
        keeping=common.keeping,
        report=common.report,
        node=common.member.node,
    )
    changed.connect(made.show, waying.wake)
    return made, waying


def _works(parts: _Parts, backups: BackupSide) -> Works:
    packing, landing = _packing(parts), _landing(parts)
    readiness = Readiness(parts.ports.runtime, parts.services.images, _awaited(parts.services))
    looking_back = LookingBack(
        books=parts.books,
        passports=parts.services.passports,
        passage=parts.passage,
        progress=parts.progress,
        follow=parts.common.follow,
    )
    arriving = _arriving(parts, landing)
    receiving = _receiving(parts, arriving, readiness)
    restored = Restored(
        fetching=backups.nearest,
        ways=backups.ways,
        arriving=arriving,
        readiness=readiness,
        receiving=receiving,
        progress=parts.progress,
        containers=parts.services.containers,
    )
    tidying = Tidying(
        declared=parts.declared,
        books=parts.books,
        packing=packing,
        receiving=receiving,
        landing=landing,
        passage=parts.passage,
        vouch=parts.vouch,
        node=parts.common.member.node,
    )
    return Works(
        declared=parts.declared,
        books=parts.books,
        handing_over=_handing_over(parts, packing, looking_back),
        receiving=receiving,
        restored=restored,
        arriving=arriving,
        tidying=tidying,
    )


def _packing(parts: _Parts) -> MovePacking:
    own = parts.ports.backups
    return MovePacking(
        archiver=own.archiver,
        passage=parts.passage,
        books=parts.books,
        sealer=own.sealer,
        keys=own.keys,
        key=parts.ports.key,
        lanes=parts.common.lanes,
        home=own.home,
        data_dir=parts.ports.data_dir,
        fleet=parts.common.member.fleet,
    )


def _handing_over(parts: _Parts, packing: MovePacking, looking_back: LookingBack) -> HandingOver:
    services, common = parts.services, parts.common
    standstill = Standstill(
        services=services.orders,
        holds=Holds(services.wanted.read, services.records, common.services),
        records=services.records,
        containers=services.containers,
        lanes=common.lanes,
        ran=parts.schedules.decided,
    )
    return HandingOver(
        declared=parts.declared,
        books=parts.books,
        packing=packing,
        passage=parts.passage,
        progress=parts.progress,
        standstill=standstill,
        looking_back=looking_back,
    )


def _landing(parts: _Parts) -> Landing:
    return Landing(books=parts.books, storage=parts.ports.storage, vouch=parts.vouch, node=parts.common.member.node)


def _arriving(parts: _Parts, landing: Landing) -> Arriving:
    services = parts.services
    inheriting = Inheriting(
        passports=MovedIn(services.volumes, services.passports),
        records=services.records,
        go_on=parts.schedules.go_on,
        awaited=_awaited(services),
    )
    return Arriving(
        declared=parts.declared,
        books=parts.books,
        landing=landing,
        inheriting=inheriting,
        lanes=parts.common.lanes,
        follow=parts.common.follow,
    )


def _receiving(parts: _Parts, arriving: Arriving, readiness: Readiness) -> Receiving:
    own = parts.ports.backups
    return Receiving(
        books=parts.books,
        passage=parts.passage,
        archiver=own.archiver,
        opener=own.opener,
        arriving=arriving,
        readiness=readiness,
        progress=parts.progress,
        home=own.home,
        fleet=parts.common.member.fleet,
    )


def _awaited(services: ServiceSide) -> Callable[[str], Guest | None]:
    def answered(service: str) -> Guest | None:
        wanted = services.wanted.read()
        return wanted.awaited.get(service) if wanted is not None else None

    return answered
