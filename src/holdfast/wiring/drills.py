"""Build the keeper of drills."""

from collections.abc import Callable

from holdfast.agent.drills.books import Books
from holdfast.agent.drills.choosing import Choosing
from holdfast.agent.drills.copying import EXEC, Copies
from holdfast.agent.drills.declared import Declarations
from holdfast.agent.drills.drilling import Drilling
from holdfast.agent.drills.keeper import Drills
from holdfast.agent.drills.notes import Notes
from holdfast.agent.drills.remains import Remains
from holdfast.agent.drills.rounds import Rounds
from holdfast.agent.drills.trial import Trial
from holdfast.agent.drills.volumes import Volumes
from holdfast.agent.services.rollout.health_checks import HealthChecks
from holdfast.agent.wake import Wake
from holdfast.model.backup_report import BackupMade
from holdfast.model.container import Container
from holdfast.ports.allowed import Allowed
from holdfast.reconcile.drill_copy import service_of
from holdfast.wiring.agent_parts import Common, Ports, ServiceSide
from holdfast.wiring.backups import BackupSide

EVERY_CHECK = frozenset({"http", "tcp", "grpc", "exec"})


def keeper(
    ports: Ports, common: Common, services: ServiceSide, backups: BackupSide, books: Books, changed: Wake
) -> Drills:
    notes, declared = Notes(common.findings), Declarations(ports.acceptance.blob, backups.times)
    node = (common.member.fleet, common.member.node)
    choosing = Choosing(backups.store, backups.primary, ports.key, node, _last(backups))
    remains = Remains(
        journal=ports.journal,
        runtime=ports.runtime,
        door=services.door,
        containers=services.containers,
        scratch=ports.drills.scratch,
        node=common.member.node,
    )
    rounds = Rounds(
        drilling=Drilling(
            choosing=choosing,
            fetching=backups.fetching,
            scratch=ports.drills.scratch,
            trial=Trial(
                _copies(ports, common, services, backups),
                Volumes(services.door, ports.drills.scratch),
                ports.drills.scratch,
                common.time,
            ),
            remains=remains,
            records=services.records,
            time=common.time,
            data_dir=ports.data_dir,
        ),
        remains=remains,
        books=books,
        lanes=common.lanes,
        time=common.time,
        notes=notes,
        changed=changed,
        node=common.member.node,
    )
    made = Drills(declared=declared, books=books, rounds=rounds, time=common.time, notes=notes, report=common.report)
    changed.connect(made.show)
    return made


def _copies(ports: Ports, common: Common, services: ServiceSide, backups: BackupSide) -> Copies:
    def may_run(container: Container) -> Allowed:
        return services.door.touch(container, EXEC, service_of(container.name))

    health = HealthChecks(
        ports.drills.prober, ports.clock, may_run, ports.runtime.is_alive, Wake(), common.pace.start_s, EVERY_CHECK
    )
    return Copies(
        runtime=ports.runtime,
        door=services.door,
        containers=services.containers,
        health=health,
        clock=ports.clock,
        loading=backups.loading,
        declared=backups.declared,
    )


def _last(backups: BackupSide) -> Callable[[str], BackupMade | None]:
    return lambda service: backups.books.of(service, 0.0).last
