"""One drill: a stored backup is fetched, unpacked into scratch, and the service is tried on it."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.backups.fetching import Fetching
from holdfast.agent.drills.choosing import Choosing
from holdfast.agent.drills.copying import Copies
from holdfast.agent.drills.refusing import refuse, serving
from holdfast.agent.drills.remains import Remains
from holdfast.agent.services.records import Records
from holdfast.agent.time import NodeTime
from holdfast.errors import Corrupt, Failed, HoldfastError
from holdfast.model.backup import VerifiedReceipt
from holdfast.model.drill import Drill, DrillResult
from holdfast.model.duration import milliseconds
from holdfast.ports.archive import Progress, Unpacked
from holdfast.ports.scratch import Drillable, Scratch
from holdfast.reconcile import drill, drill_copy

Tell = Callable[[str, Progress | None], None]  # the step, and how far it is


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
        copies: Copies,
        remains: Remains,
        records: Records,
        time: NodeTime,
        data_dir: str,
    ) -> None:
        self._choosing = choosing
        self._fetching = fetching
        self._scratch = scratch
        self._copies = copies
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
            guest = serving(self._records, request.service)
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
            evidence.append(f"restored with every digest right: {unpacked.files} files, {unpacked.size_bytes} bytes")
            await self._try(request, every, proof, unpacked, evidence, tell)
            verdict: HoldfastError | None = None
        except HoldfastError as trouble:
            verdict = await self._pruned(found, trouble)
        except OSError as trouble:
            verdict = Failed(str(trouble), remedy="check the disk of this node: df", code="system_error")
        took_s = max(self._time.now_s() - begun_s, 0.0)
        result = replace(result, took_s=took_s, checks=tuple(evidence))
        if verdict is None:
            return replace(result, verdict="verified")
        lines = await self._copies.last_lines(every) if drill.verdict_of(verdict) == "failed" and evidence else ()
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

    async def _try(
        self,
        request: Request,
        every: Sequence[drill_copy.Copy],
        proof: Drillable,
        unpacked: Unpacked,
        evidence: list[str],
        tell: Tell,
    ) -> None:
        declared = request.declared
        within_s = milliseconds(declared.timeout if declared is not None else Drill(("-",)).timeout) / 1000
        for copy in every:
            for place in copy.places:
                await asyncio.to_thread(self._scratch.volume, proof, place)
        tell("starting", None)
        await self._copies.make(every)
        until_s = self._time.monotonic_s() + within_s
        tell("health checks", None)
        if self._copies.needs_load(unpacked.header, request.service):
            await self._copies.healthy(every, until_s, lambda seen: None)
            tell("loading the dump", None)
            await self._copies.load(every, self._scratch.path(proof.id), unpacked.header)
            evidence.append("the dump was loaded by the service's own command")
        await self._copies.healthy(every, until_s, evidence.append)
        if declared is not None:
            tell("cmd of [drill]", None)
            with_data = next((copy for copy in every if copy.places), every[0])
            await self._copies.command(with_data, declared, until_s)
            evidence.append(f"cmd of [drill] ended with exit code 0 in {with_data.spec.component}")

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
