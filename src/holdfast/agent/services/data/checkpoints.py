"""The checkpoints of this node: what each one is a copy of, from the journal; reported, and deleted by order."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from holdfast.agent.keeper import Act, OrderRun
from holdfast.agent.services.data.passports import Passports
from holdfast.agent.services.data.proofs import granted
from holdfast.agent.services.records import Record
from holdfast.agent.services.rollout.progress import Progress
from holdfast.errors import Failed
from holdfast.gate import copies
from holdfast.model.checkpoint import Taken
from holdfast.model.container import Guest
from holdfast.model.order import VerifiedOrder
from holdfast.model.report import CheckpointState, ReportedCheckpoints
from holdfast.ports.journal import Journal
from holdfast.ports.storage import Checkpoint, Restorable, Storage
from holdfast.reconcile import checkpoints

PREFIX = "services/checkpoint/"
FOUND = "found"

_taken = msgspec.json.Decoder(Taken).decode


class Checkpoints:
    """`changed` is called when another list is to be reported."""

    def __init__(
        self, *, storage: Storage, passports: Passports, journal: Journal, node: str, changed: Callable[[], None]
    ) -> None:
        self._storage = storage
        self._passports = passports
        self._journal = journal
        self._node = node
        self._changed = changed
        self.reported = ReportedCheckpoints()
        self.acts: Mapping[str, Act] = {
            "delete-checkpoint": Act(self._delete, "resume", "half of a checkpoint is of no use")
        }

    # ---- what they are copies of

    async def took(self, progress: Progress, made: Checkpoint) -> None:
        """A rollout made one, before its target gets the data."""
        target, record = progress.target, progress.record
        assert target is not None
        taken, revision = self.present(made.service, record), record.applied_revision or progress.revision
        wanted = progress.wanted
        if wanted is not None and wanted.deployment != target.deployment:  # the attempt failed, and wrote it last
            taken = replace(taken, deployment=wanted.deployment, revision=revision, images=_images(wanted))
            revision = record.serving_revision
        taken = replace(
            taken,
            before=target.deployment,
            before_revision=revision,
            before_images=_images(target),
            mixed=self._passports.has_writers_of(made.service, target.deployment),
        )
        self.note(made, taken)
        await self.look()

    def present(self, service: str, record: Record) -> Taken:
        """What wrote the data that is there now."""
        serving = record.serving
        return Taken(
            serving.deployment if serving is not None else "",
            record.serving_revision or self._passports.revision(service),
            _images(serving) if serving is not None else (),
            writers=self._passports.admitted(service),
            owners={one.place: one.owner for one in self._passports.of_service(service) if one.owner},
        )

    def replaced(self, made: Checkpoint, taken: Taken, operation: str) -> None:
        """A restore made one of the data that it replaced. After a crash the first note counts."""
        self._journal.note_made(made.path, operation, True)
        if self._journal.fact(_fact(made.service, made.id)) is None:
            self.note(made, taken)

    def fetched(self, made: Checkpoint, taken: Taken, operation: str) -> None:
        """A backup was brought back as a checkpoint."""
        self._journal.note_made(made.path, operation, True)
        self.note(made, taken)

    def note(self, made: Checkpoint, taken: Taken) -> None:
        self._journal.set_aside(_fact(made.service, made.id), msgspec.json.encode(taken))

    def taken(self, made: Checkpoint) -> Taken:
        text = self._journal.fact(_fact(made.service, made.id))
        return _taken(text) if text is not None else Taken()

    # ---- the list

    async def look(self) -> None:
        """After a change, and now and then."""
        noted = self._journal.facts(PREFIX).keys()  # before: a rollout of another service may note one meanwhile
        kept = await asyncio.get_running_loop().run_in_executor(None, self._storage.checkpoints)
        self._forget_gone(noted - {_fact(one.service, one.id) for one in kept})
        reported = checkpoints.listed([self._state(one) for one in kept])
        if reported != self.reported:
            self.reported = reported
            self._changed()

    def _state(self, one: Checkpoint) -> CheckpointState:
        taken = self.taken(one)
        return CheckpointState(
            one.service,
            one.id,
            one.size_bytes,
            one.made_s,
            taken.deployment,
            taken.revision,
            taken.images,
            taken.before,
            taken.before_revision,
            taken.before_images,
            taken.mixed,
            one.left_out,
        )

    def _forget_gone(self, facts: Iterable[str]) -> None:
        """Not while data is set aside: its checkpoints may come back with it."""
        for fact in facts:
            if not self._storage.set_aside_by(fact.split("/")[-2]):
                self._journal.drop_fact(fact)

    # ---- by order

    def restorable(self, service: str, id: str, order: VerifiedOrder) -> Restorable:
        found = self._named(service, id)
        present = self._storage.directory(service)
        return granted(copies.may_restore(self._journal, found, present, self._node, order))

    async def _delete(self, run: OrderRun) -> str:
        order = run.proof
        assert order is not None, "the gate permits no deletion without an order"
        service = order.order.target.removeprefix("data.")
        try:
            found = self._named(service, order.arguments.get("checkpoint", ""))
        except Failed:
            if not run.did(FOUND):
                raise
            return f"checkpoint {order.arguments['checkpoint']} of {service} is gone"  # before a crash
        proof = granted(copies.may_delete(self._journal, found, self._node, order))
        self._journal.step(run.operation.id, FOUND, run.operation.begun_s)
        await asyncio.get_running_loop().run_in_executor(None, self._storage.discard, proof)
        self._journal.forget_made(found.path)
        self._journal.drop_fact(_fact(service, found.id))
        await self.look()
        return f"checkpoint {found.id} of {service} is gone: {found.size_bytes} bytes"

    def _named(self, service: str, id: str) -> Checkpoint:
        for one in self._storage.checkpoints():
            if (one.service, one.id) == (service, id):
                return one
        raise Failed(
            f"this node has no checkpoint {id!r} of {service}",
            remedy=f"`holdfast checkpoint list {service}` lists them",
            code="not_found",
        )


def _fact(service: str, id: str) -> str:
    return f"{PREFIX}{service}/{id}"


def _images(guest: Guest) -> tuple[str, ...]:
    return tuple(sorted({part.spec.image for part in guest.parts}))
