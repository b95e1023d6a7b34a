"""Hand a service over to another node: copy its data while it runs, stop it, copy the rest, sign for it."""

from msgspec.structs import replace

from holdfast.agent.lane_turn import superseded
from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Declarations, Moving
from holdfast.agent.moves.passage import Passage
from holdfast.agent.moves.pausing import Pause
from holdfast.agent.moves.progress import MoveProgress
from holdfast.agent.moves.source.looking_back import LookingBack
from holdfast.agent.moves.source.packing import MovePacking
from holdfast.agent.moves.source.standstill import Standstill
from holdfast.model.move import Pass
from holdfast.ports.archive import Packed
from holdfast.reconcile import moves as rules
from holdfast.reconcile.moves import Out

LOOKS_COUNTED = 25  # between two looks whether the passage lost something


class HandingOver:
    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        packing: MovePacking,
        passage: Passage,
        progress: MoveProgress,
        standstill: Standstill,
        looking_back: LookingBack,
    ) -> None:
        self._declared = declared
        self._books = books
        self._packing = packing
        self._passage = passage
        self._progress = progress
        self._standstill = standstill
        self.looking_back = looking_back

    async def run(self, moving: Moving) -> None:
        """Until the target has taken it, or the revision no longer wants it. Raises what keeps it from that; the same
        call again goes on."""
        await self.looking_back.ask(moving)
        book = self._book(moving)
        if book.entry is None and not book.handover:
            self._sign_untaken(moving)
        elif not book.handover:
            if not book.stopping:
                await self._copy(moving)
            await self._standstill.alone(moving.service, lambda: self._end(moving))
        await self._until_taken(moving)

    def _book(self, moving: Moving) -> Out:
        book = self._books.out(moving.service)
        if book is None or book.epoch != moving.epoch:
            raise superseded()
        return book

    def _sign_untaken(self, moving: Moving) -> None:
        """This node never had the data: the move that should have brought it was taken back, or went on too early."""
        word = replace(self._passage.meant(moving), number=1, is_last=True, untaken=True)
        content = self._passage.signed(word)
        self._books.keep_out(moving.service, replace(self._book(moving), number=1, handover=content))

    # ---- while it runs

    async def _copy(self, moving: Moving) -> None:
        while True:
            number, begun_s = self._book(moving).passes + 1, self._progress.now_s()
            self._progress.step(moving, "copy", f"pass {number}, the service runs")
            packed = await self._packing.pack(moving, number, begun_s, self._progress.telling(moving))
            took_s = self._progress.now_s() - begun_s
            await self._passage.say(moving, self._word(moving, number, packed))
            self._books.keep_out(moving.service, replace(self._book(moving), passes=number))
            self._progress.step(moving, "catch up", f"{moving.target} unpacks pass {number}")
            ready = await self._ready_for(moving, number)
            if rules.may_end(number, packed.new_bytes, took_s, ready):
                return

    async def _ready_for(self, moving: Moving, number: int) -> int:
        pause = Pause()
        while True:
            word = await self._passage.ready(moving)
            if word is not None and word.number >= number:
                return word.number
            await pause.over()

    # ---- the end

    async def _end(self, moving: Moving) -> None:
        """In the lane of the service. Stopped before the last pass, signed after it: a crash in between goes on here,
        and the service stays stopped meanwhile."""
        service = moving.service
        self._check_current(moving)
        self._progress.step(moving, "stop", "the service stops")
        book, is_held = self._book(moving), self._standstill.is_held(service)
        held = is_held and (book.held or not book.stopping)
        self._books.keep_out(service, replace(book, stopping=True, held=held))
        try:
            await self._standstill.stop(service)
            number = self._book(moving).passes + 1
            self._progress.step(moving, "hand over", "the rest is copied")
            tell = self._progress.telling(moving)
            packed = await self._packing.pack(moving, number, self._progress.now_s(), tell, urgent=True)
            await self._standstill.check(service)
            self._check_current(moving)
            await self._sign(moving, number, packed)
        except Exception:
            self.release(service)
            raise

    def _check_current(self, moving: Moving) -> None:
        found = self._declared.out.get(moving.service)
        if found is None or found.epoch != moving.epoch:
            raise superseded()

    async def _sign(self, moving: Moving, number: int, packed: Packed) -> None:
        """Durable here before it is on its way: from now on this node does not run it."""
        word = replace(
            self._word(moving, number, packed),
            is_last=True,
            schedules=dict(self._standstill.ran(moving.service)),
            held=self._book(moving).held,
        )
        content = self._passage.signed(word)
        book = replace(self._book(moving), passes=number, number=number, handover=content, manifest=word.manifest)
        self._books.keep_out(moving.service, replace(book, handed_s=self._progress.now_s()))
        self._progress.step(moving, "hand over", f"{moving.target} takes it")
        self.looking_back.follow()
        await self._passage.repeat(moving, number, content)

    def release(self, service: str) -> None:
        """Nothing was handed over: the service goes on, unless an order had stopped it."""
        book = self._books.out(service)
        if book is None or not book.stopping or book.handover:
            return
        self._books.keep_out(service, replace(book, stopping=False))
        if not book.held:
            self._standstill.lift(service)

    async def _until_taken(self, moving: Moving) -> None:
        """What the passage lost is packed again: the data is at rest."""
        looks, pause = 0, Pause()
        while not (book := self._book(moving)).is_taken:
            await self._passage.repeat(moving, book.number, book.handover)
            word = await self._passage.ready(moving)
            if word is not None and word.has_all:
                self._books.keep_out(moving.service, replace(book, is_taken=True))
                break
            looks += 1
            if looks % LOOKS_COUNTED == 0 and book.manifest:
                await self._send_again(moving, book)
            await pause.over()
        self._progress.end(moving)

    async def _send_again(self, moving: Moving, book: Out) -> None:
        if not await self._packing.is_stored(moving, book.manifest):
            number, tell = book.number + 1, self._progress.telling(moving)
            packed = await self._packing.pack(moving, number, self._progress.now_s(), tell, urgent=True)
            await self._sign(moving, number, packed)

    def _word(self, moving: Moving, number: int, packed: Packed) -> Pass:
        deployment, revision = self._standstill.serving(moving.service)
        return replace(
            self._passage.meant(moving),
            number=number,
            manifest=packed.digest,
            files=packed.files,
            size_bytes=packed.size_bytes,
            new_bytes=packed.new_bytes,
            deployment=deployment,
            revision=revision,
        )
