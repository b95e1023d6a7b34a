"""Whether this node handed a service over and forgot it: its state was put back to before that (ADR 0056)."""

from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Moving
from holdfast.agent.moves.passage import Passage
from holdfast.agent.moves.progress import MoveProgress
from holdfast.agent.services.data.passports import Passports
from holdfast.model.revision import Entry
from holdfast.reconcile.moves import Out


class LookingBack:
    """`follow` lets all keepers follow the revision again."""

    def __init__(
        self,
        *,
        books: Books,
        passports: Passports,
        passage: Passage,
        progress: MoveProgress,
        follow: Callable[[], None],
    ) -> None:
        self._books = books
        self._passports = passports
        self._passage = passage
        self._progress = progress
        self.follow = follow
        self._asked: set[tuple[str, int]] = set()  # in this life of the agent

    def is_sure(self, moving: Moving) -> bool:
        """Of a service that the revision hands over."""
        book = self._books.out(moving.service)
        is_asked = (moving.service, moving.epoch) in self._asked
        return is_asked or book is None or book.epoch != moving.epoch or bool(book.handover)

    async def ask(self, moving: Moving) -> None:
        """Without this the service would run on two nodes."""
        book = self._books.out(moving.service)
        if not self.is_sure(moving) and book is not None:
            if await self._found(moving, book):
                self.follow()
            elif book.entry is None and self._was_here(moving):
                self._books.keep_out(moving.service, replace(book, entry=_before(moving)))
                self.follow()
        self._asked.add((moving.service, moving.epoch))

    def _was_here(self, moving: Moving) -> bool:
        """The data of the epoch before is here, and the journal does not know it: this node must not sign that it never
        had it."""
        return any(one.epoch == moving.epoch - 1 for one in self._passports.beside(moving.service))

    async def ask_before_it_stays(self, moving: Moving) -> None:
        """A move away from here was taken back while this agent was off: did the data leave before that?"""
        nodes = {"source": moving.target, "target": moving.source}
        away = replace(moving, **nodes, entry=replace(moving.entry, epoch=moving.epoch - 1))
        known = self._books.out(moving.service)
        book = known if known is not None and known.epoch == away.epoch else Out(away.epoch, _before(away))
        self._books.keep_stays(moving.service, moving.epoch, left=await self._found(away, book))
        self.follow()

    async def _found(self, moving: Moving, book: Out) -> bool:
        found = await self._passage.own(moving)
        if found is None:
            return False
        content, word = found
        noted = {"number": word.number, "handover": content, "manifest": word.manifest, "is_taken": word.taken}
        entry = None if word.untaken else book.entry
        self._books.keep_out(moving.service, replace(book, entry=entry, **noted, handed_s=self._progress.now_s()))
        return True


def _before(moving: Moving) -> Entry:
    """The service as it was on the source, as far as the revision still says."""
    return replace(moving.entry, node=moving.source, epoch=moving.epoch - 1, move=UNSET)
