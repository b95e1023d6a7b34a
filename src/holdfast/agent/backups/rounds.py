"""One backup of one service, with all that belongs to it: its note, what is pruned after it, and reading it back."""

from contextlib import suppress
from functools import partial

from holdfast.agent.backups.books import Books
from holdfast.agent.backups.declared import Declarations, Wanted
from holdfast.agent.backups.making import Made, Request
from holdfast.agent.backups.notes import Notes
from holdfast.agent.backups.runs import GaveWay, Running, Runs, Skipped
from holdfast.agent.backups.sources import Sources
from holdfast.agent.time import NodeTime
from holdfast.errors import Failed, HoldfastError
from holdfast.model.backup import Cause
from holdfast.model.backup_report import BackupMade
from holdfast.reconcile import backup_due as rules
from holdfast.reconcile.backup_due import Book

VERIFY_S, VERIFY_AGAIN_S = 24 * 3600.0, 3600.0
TARGET = "hub"


class Rounds:
    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        runs: Runs,
        sources: Sources,
        time: NodeTime,
        notes: Notes,
    ) -> None:
        self._declared = declared
        self._books = books
        self._runs = runs
        self._sources = sources
        self._time = time
        self._notes = notes
        self._read_s: dict[str, float] = {}  # when stored backups were last read back, or could not be

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
            await self._succeeded(request, book, made)

    def _failed(self, service: str, trouble: HoldfastError) -> None:
        now_s = self._time.now_s()
        self._books.note(service, rules.failed(self._books.of(service, now_s), now_s, trouble.message))

    async def _succeeded(self, request: Request, before: Book, made: Made) -> None:
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
            target=TARGET,
            order=before.asked_by,
            left_out=len(made.left_out),
            unsettled=len(made.unsettled),
        )
        self._books.keep(service, rules.done(self._books.of(service, self._time.now_s()), told))
        self._notes.made(service)
        await self._prune(service)

    async def _prune(self, service: str) -> None:
        try:
            await self._runs.prune(service, self._declared.policy)
            self._notes.not_pruned(service, None)
        except HoldfastError as trouble:
            self._notes.not_pruned(service, trouble)

    # ---- once a day

    async def read_back(self) -> None:
        """Every stored byte of the newest backup of one service (H-61). Old backups go only if one is known to be
        right."""
        now_s = self._time.now_s()
        for service in sorted(self._declared.found):
            last = self._books.of(service, now_s).last
            if last is None or now_s - self._runs.verified_s(service) < VERIFY_S:
                continue
            if now_s - self._read_s.get(service, 0.0) < VERIFY_AGAIN_S:
                continue
            self._read_s[service] = now_s
            with suppress(HoldfastError):  # the target does not answer: a backup will tell
                self._notes.read_back(service, last.id, await self._runs.verify(service, last.digest, now_s))
                await self._prune(service)
            return


def _of_system(trouble: OSError) -> HoldfastError:
    return Failed(str(trouble), remedy="check the disk of this node: df", code="system_error")
