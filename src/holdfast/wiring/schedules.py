"""Build the keeper of schedules."""

from holdfast.adapters.calendar.cronsim import CronCalendar
from holdfast.agent.schedules.attempts import Attempts
from holdfast.agent.schedules.books import Books
from holdfast.agent.schedules.declared import Declarations
from holdfast.agent.schedules.keeper import Schedules
from holdfast.agent.schedules.notes import Notes
from holdfast.agent.schedules.runs import Runs
from holdfast.agent.wake import Wake
from holdfast.wiring.agent_parts import Common, Ports, ServiceSide


def keeper(ports: Ports, common: Common, services: ServiceSide) -> tuple[Schedules, Books]:
    """With its books, which a move takes along."""
    changed, notes = Wake(), Notes(common.findings)

    def running(service: str) -> set[str]:
        return {one.spec for one in services.containers.of(service) if one.running}

    declared = Declarations(ports.acceptance.blob, services.records, running, lambda: services.pacing.withholds_data)
    books = Books(ports.journal, notes, changed)
    runs = Runs(
        books=books,
        declared=declared,
        attempts=Attempts(
            runtime=ports.runtime,
            door=services.door,
            containers=services.containers,
            journal=ports.journal,
            clock=ports.clock,
            fleet=common.member.fleet,
        ),
        lanes=common.lanes,
        time=common.time,
        keeping=common.keeping,
        notes=notes,
        boot=ports.machine.boot(),
    )
    made = Schedules(
        declared=declared,
        books=books,
        runs=runs,
        calendar=CronCalendar(),
        time=common.time,
        notes=notes,
        report=common.report,
    )
    changed.connect(made.wake)
    services.changed.connect(made.looked)
    return made, books
