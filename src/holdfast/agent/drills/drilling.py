"""One drill: a stored backup is fetched, unpacked into scratch, and the service is tried on it."""

from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.backups.fetching import Fetching
from holdfast.agent.drills.choosing import Choosing
from holdfast.agent.drills.refusing import no_room, refuse, serving
from holdfast.agent.drills.remains import Remains
from holdfast.agent.drills.trial import Tell, Trial
from holdfast.agent.services.records import Records
from holdfast.agent.time import NodeTime
from holdfast.errors import Corrupt, Failed, HoldfastError
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.drill import Drill, DrillResult
from holdfast.model.size import counted, size
from holdfast.ports.archive import Unpacked
from holdfast.ports.scratch import Drillable, Scratch
from holdfast.reconcile import drill, drill_copy


class Request(Struct, frozen=True):
    service: str
    declared: Drill | None
    book: drill.Book
    token: str  # tells drills apart


class Drilling:
    """`data_dir` has the data of each service, which no drill touches."""

    def __init__(
        self,
        *,
        choosing: Choosing,
        fetching: Fetching,
        scratch: Scratch,
        trial: Trial,
        remains: Remains,
        records: Records,
        time: NodeTime,
        data_dir: str,
    ) -> None:
        self._choosing = choosing
        self._fetching = fetching
        self._scratch = scratch
        self._trial = trial
        self._remains = remains
        self._records = records
        self._time = time
        self._data_dir = data_dir

    async def drill(self, request: Request, tell: Tell) -> DrillResult:
        """The verdict with its evidence. What it made is still there: `Remains.clear` removes it."""
        book, begun_s = request.book, self._time.now_s()
        result = DrillResult("inconclusive", begun_s, 0.0, book.cause, book.asked_for, order=book.asked_by)
        found: VerifiedReceipt | None = None
        evidence, every = list[str](), tuple[drill_copy.Copy, ...]()
        try:
            tell("choosing the backup", None)
            guest, wanted = serving(self._records, request.service), self._trial.wanted(request.service)
            result = replace(result, backup=book.asked_for or self._choosing.newest(request.service))
            found = await self._choosing.chosen(request.service, book.asked_for)
            receipt = found.receipt
            result = replace(result, backup=found.digest, sequence=receipt.sequence, made_s=float(receipt.made_s))
            refuse(found, guest, self._data_dir, self._scratch.room_bytes())
            every = drill_copy.copies(
                guest, request.token, self._data_dir, self._scratch.path(f"{request.service}-{request.token}")
            )
            proof = await self._remains.begin(drill_copy.staged(guest, request.token, every))
            unpacked = await self._unpacked(found, proof, tell)
            result = replace(result, files=unpacked.files, size_bytes=unpacked.size_bytes)
            what = f"{counted(unpacked.files, 'file')}, {size(unpacked.size_bytes)}"
            evidence.append(f"restored with every digest right: {what}")
            await self._trial.begin(every, wanted, proof, unpacked.header, evidence, tell)
            await self._trial.judge(every, request.declared, evidence, tell)
            verdict: HoldfastError | None = None
        except HoldfastError as trouble:
            verdict = self._without_room(await self._pruned(found, trouble))
        except OSError as trouble:
            verdict = Failed(str(trouble), remedy="check the disk of this node: df", code="system_error")
        took_s = max(self._time.now_s() - begun_s, 0.0)
        result = replace(result, took_s=took_s, checks=tuple(evidence))
        if verdict is None:
            return replace(result, verdict="verified")
        lines = await self._trial.last_lines(every) if drill.verdict_of(verdict) == "failed" and evidence else ()
        return replace(
            result, verdict=drill.verdict_of(verdict), reason=verdict.message, remedy=verdict.remedy, lines=lines
        )

    def newest(self, service: str) -> str:
        """The digest of the newest backup, as far as this node knows; "" if there is none."""
        return self._choosing.newest(service)

    # ---- the restored copy

    async def _unpacked(self, found: VerifiedReceipt, proof: Drillable, tell: Tell) -> Unpacked:
        receipt = found.receipt
        tell("restoring", None)
        unpacked = await self._fetching.unpack(
            found, "", self._scratch.path(proof.id), lambda progress: tell("restoring", progress), "drill"
        )
        header = unpacked.header
        if (header.node, header.sequence, header.epoch) != (receipt.node, receipt.sequence, receipt.epoch):
            raise Corrupt(
                f"backup {found.id} of {receipt.service} holds the archive of another one: number {header.sequence} of "
                f"{header.node}",
                remedy=f"holdfast backup {receipt.service} --wait",
                code="archive_damaged",
            )
        return unpacked

    def _without_room(self, trouble: HoldfastError) -> HoldfastError:
        """A service that had no room to write says nothing about its backup."""
        with suppress(HoldfastError):
            if trouble.code in drill.TRIED and self._scratch.room_bytes() <= 0:
                return no_room(trouble.message)
        return trouble

    async def _pruned(self, found: VerifiedReceipt | None, trouble: HoldfastError) -> HoldfastError:
        """A backup that was deleted by its retention meanwhile is not damaged."""
        if found is None or trouble.code != "object_missing":
            return trouble
        try:
            if await self._choosing.is_stored(found):
                return trouble
        except HoldfastError:
            pass
        return Failed(
            f"backup {found.id} was pruned while it was read",
            remedy=f"holdfast drill {found.receipt.service}",
            code="pruned",
        )
