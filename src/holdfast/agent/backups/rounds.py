"""One backup of one service, with all that belongs to it: its note, what is pruned after it, and reading it back."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from holdfast.agent.backups.books import Books
from holdfast.agent.backups.declared import Declarations, Wanted
from holdfast.agent.backups.making import Made, Request
from holdfast.agent.backups.notes import Notes
from holdfast.agent.backups.runs import GaveWay, Running, Runs, Skipped
from holdfast.agent.backups.sources import Sources
from holdfast.agent.backups.targets.attached import Holdings, Target, Targets
from holdfast.agent.keeper import Revision
from holdfast.agent.time import NodeTime
from holdfast.errors import Failed, HoldfastError
from holdfast.model.backup import Cause
from holdfast.model.backup_report import BackupMade, Copies, TargetReport
from holdfast.reconcile import backup_due as rules
from holdfast.reconcile.backup_due import Book
from holdfast.reconcile.retention import Policy

VERIFY_S, VERIFY_AGAIN_S = 24 * 3600.0, 3600.0
SHOWN = 50  # backups of one service on one target, in a report


class Rounds:
    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        runs: Runs,
        sources: Sources,
        targets: Targets,
        time: NodeTime,
        notes: Notes,
    ) -> None:
        self._declared = declared
        self._books = books
        self._runs = runs
        self._sources = sources
        self._targets = targets
        self._time = time
        self._notes = notes
        self._kept: Mapping[str, Policy] = {}  # what each target is to keep
        self._read_s: dict[tuple[str, str], float] = {}  # when stored backups were last read back, or could not be

    def follow(self, revision: Revision) -> None:
        """A target that is to keep fewer backups may be full: no next one would have it freed."""
        self._targets.follow(revision)
        before, self._kept = self._kept, {at.name: at.policy(self._declared.policy) for at in self._targets.all}
        if any(before.get(name, policy) != policy for name, policy in self._kept.items()):
            self._targets.grown.update(self._declared.found)

    @property
    def now(self) -> Running | None:
        """The backup under way."""
        return self._runs.now

    def has_data(self, wanted: Wanted) -> bool:
        return self._sources.has_data(wanted)

    # ---- one backup

    async def back_up(self, wanted: Wanted) -> None:
        service, begun_s = wanted.service, self._time.now_s()
        book = self._books.of(service, self._time.now_s())
        cause: Cause = "schedule" if not book.asked_s else "order" if book.asked_by else "hub"
        wrote = partial(self._sources.wrote, service)
        request = Request(wanted, self._declared.operators(service), cause, begun_s, wrote)
        try:
            made = await self._runs.make(request, book, self._declared.timeout_s)
        except GaveWay:
            return
        except Skipped as trouble:
            self._notes.skipped(service, self._declared.timeout_s)
            self._failed(service, trouble)
        except (HoldfastError, OSError) as trouble:
            failure = trouble if isinstance(trouble, HoldfastError) else _of_system(trouble)
            self._notes.failed(service, failure)
            self._failed(service, failure)
        else:
            self._succeeded(request, book, made)

    def _failed(self, service: str, trouble: HoldfastError) -> None:
        now_s = self._time.now_s()
        self._books.note(service, rules.failed(self._books.of(service, now_s), now_s, trouble.message))

    def _succeeded(self, request: Request, before: Book, made: Made) -> None:
        service, receipt = request.wanted.service, made.receipt.receipt
        told = BackupMade(
            id=made.receipt.id,
            digest=made.receipt.digest,
            sequence=receipt.sequence,
            made_s=request.begun_s,
            took_s=max(self._time.now_s() - request.begun_s, 0.0),
            cause=receipt.cause,
            files=receipt.files,
            size_bytes=receipt.size_bytes,
            stored_bytes=receipt.stored_bytes,
            new_bytes=made.new_bytes,
            target=self._targets.primary_of(service).name,
            order=before.asked_by,
            left_out=len(made.left_out),
            unsettled=len(made.unsettled),
        )
        self._books.keep(service, rules.done(self._books.of(service, self._time.now_s()), told))
        self._notes.made(service)
        self._targets.uneven.set()
        self._targets.grown.add(service)

    async def _prune(self, service: str) -> None:
        trouble: HoldfastError | None = None
        for at in self._targets.of(service):
            if at.may_delete and not at.changing.locked():  # else copies are on their way there: after them
                try:
                    await self._runs.prune(at, service, at.policy(self._declared.policy))
                except HoldfastError as raised:
                    trouble = trouble or raised
        self._notes.not_pruned(service, trouble)

    # ---- between backups

    async def care(self) -> None:
        """May be cancelled at any point; a later call goes on: a target may take long to free its space, and no backup
        waits for that."""
        while self._targets.grown:
            service = self._targets.grown.pop()
            try:
                await self._prune(service)
            except asyncio.CancelledError:
                self._targets.grown.add(service)
                raise
        await self._read_back()

    async def _read_back(self) -> None:
        """Every stored byte of the newest backup of one service on one target (H-61). Old backups go only if one is
        known to be right."""
        now_s = self._time.now_s()
        for service in sorted(self._declared.found):
            for at in self._targets.of(service):
                digest = self._newest(service, at)
                if not digest or not at.is_readable or now_s - _verified_s(service, at) < VERIFY_S:
                    continue
                if now_s - self._read_s.get((service, at.name), 0.0) < VERIFY_AGAIN_S:
                    continue
                with suppress(HoldfastError):  # the target does not answer: a backup will tell
                    self._read_s[service, at.name] = now_s
                    try:
                        flaws = await at.verified.look(service, digest, now_s)
                    except asyncio.CancelledError:
                        del self._read_s[service, at.name]  # it goes on after the backup that is due
                        raise
                    self._notes.read_back(service, digest, at.name, flaws)
                    await self._prune(service)
                return

    def _newest(self, service: str, at: Target) -> str:
        last = self._books.of(service, self._time.now_s()).last
        return last.digest if last is not None and last.target == at.name else at.newest(service)

    # ---- for the report

    def copies(self, service: str) -> tuple[Copies, ...]:
        """Only where there is more than the hub."""
        found = self._targets.of(service) if self._targets.others else ()
        return tuple(self._copies(service, at) for at in found)

    def _copies(self, service: str, at: Target) -> Copies:
        known = at.holdings.get(service, Holdings())
        return Copies(
            at.name,
            held=tuple(sorted(known.held, reverse=True)[:SHOWN]),
            lacks=known.lacks,
            read_s=_verified_s(service, at),
            same_machine=self._targets.is_same_machine(at),
        )

    def targets(self) -> tuple[TargetReport, ...]:
        return tuple(
            TargetReport(at.name, at.seen.state, at.seen.reason, at.since_s, at.seen.free_bytes)
            for at in self._targets.others
        )


def _verified_s(service: str, at: Target) -> float:
    """When every stored byte of a backup of it was last read there and right; 0: never."""
    return max(at.verified.of(service).values(), default=0.0)


def _of_system(trouble: OSError) -> HoldfastError:
    return Failed(str(trouble), remedy="check the disk of this node: df", code="system_error")
