"""What a service brings along with its data: passports, its schedules, a hold."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from holdfast.agent.moves.declared import Moving
from holdfast.agent.services.data.moved_in import MovedIn
from holdfast.agent.services.records import Records
from holdfast.errors import TryLater
from holdfast.model.checkpoint import moved_id
from holdfast.model.container import Guest
from holdfast.model.deployment import deployment_of
from holdfast.model.move import Decided, Pass


class Inheriting:
    """`awaited` answers the containers of a service that waits here for its data; `go_on` continues its schedules."""

    def __init__(
        self,
        *,
        passports: MovedIn,
        records: Records,
        go_on: Callable[[str, Mapping[str, Decided]], None],
        awaited: Callable[[str], Guest | None],
    ) -> None:
        self._passports = passports
        self._records = records
        self._go_on = go_on
        self._awaited = awaited

    def guest(self, service: str) -> Guest:
        found = self._awaited(service)
        if found is None:
            raise TryLater(
                f"what {service} needs here is not read yet", remedy="wait: it is tried again", code="not_read"
            )
        return found

    def data(self, guest: Guest, epoch: int, word: Pass | None) -> None:
        """`word`: with which it was handed over; None: it is a backup."""
        self._passports.note(guest, moved_id(epoch), word.revision if word is not None else 0)
        if word is not None:
            self._go_on(guest.service, word.schedules)

    def epoch(self, service: str) -> int:
        """Of the data that is here, by the passports beside it."""
        return self._passports.epoch(service)

    def is_held(self, service: str) -> bool:
        return self._records.of(service).held

    def hold(self, moving: Moving, number: int, held: bool) -> None:
        """A hold goes along: this deployment is not a new one. `number`: of the revision."""
        record = self._records.of(moving.service)
        if held:
            noted = {"applied": deployment_of(moving.entry), "applied_revision": number}
            record = replace(record, **noted, failure=None, hooks=())
        self._records.keep(moving.service, replace(record, held=held))
