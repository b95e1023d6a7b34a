"""One service on its way to its target: what this rollout did so far. A crash may lose all of it."""

from holdfast.agent.services.door import REPLACE, RETIRE, STOP, Ground
from holdfast.agent.services.records import Record, Records
from holdfast.agent.services.rollout.attempts import Attempt
from holdfast.model.container import Container, Guest, Part
from holdfast.model.journal import Operation
from holdfast.reconcile import rollout


def target_of(wanted: Guest | None, record: Record) -> Guest | None:
    """What served before, once the wanted deployment failed; None where nothing did."""
    if wanted is not None and record.failed == wanted.deployment:
        return record.serving
    return wanted


class Progress:
    """`wanted` is None for a service that leaves this node."""

    def __init__(self, service: str, wanted: Guest | None, revision: int, records: Records, attempt: Attempt) -> None:
        self.service = service
        self.wanted = wanted
        self.revision = revision
        self.attempt = attempt
        self.operation: Operation | None = None
        self.tried: set[str] = set()  # containers that were started
        self.drained: set[str] = set()
        self.ahead: set[str] = set()  # components whose data was copied while they ran
        self.removed: set[str] = set()  # networks
        self._records = records

    @property
    def record(self) -> Record:
        return self._records.of(self.service)

    @property
    def target(self) -> Guest | None:
        return target_of(self.wanted, self.record)

    @property
    def is_attempt(self) -> bool:
        """The wanted deployment does not serve yet: a step that fails now fails the deployment."""
        target = self.target
        return target is not None and target is self.wanted and not rollout.is_settled(target, self.record.serving)

    @property
    def removes(self) -> Ground:
        """Why a container of this service is removed."""
        return RETIRE if self.wanted is None else REPLACE

    @property
    def stops(self) -> Ground:
        is_off = self.wanted is not None and (self.record.held or not self.wanted.active)
        return STOP if is_off else self.removes

    def begun(self, operation: Operation) -> None:
        self.operation = operation

    def part_of(self, container: Container) -> Part | None:
        return part_of(container, (self.target, self.wanted, self.record.serving))


def part_of(container: Container, guests: tuple[Guest | None, ...]) -> Part | None:
    for guest in guests:
        for part in guest.parts if guest is not None else ():
            if (part.spec.component, part.digest) == (container.component, container.spec):
                return part
    return None
