"""Take a service over from another node: unpack its passes while it runs there, and its data with the handover."""

import asyncio
import os
from functools import partial

from msgspec.structs import replace

from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Moving, known_peer
from holdfast.agent.moves.passage import Passage
from holdfast.agent.moves.pausing import Pause
from holdfast.agent.moves.progress import MoveProgress
from holdfast.agent.moves.target.arriving import Arriving
from holdfast.agent.moves.target.readiness import Readiness
from holdfast.errors import Conflict, Corrupt, Failed, TryLater
from holdfast.model import archive_key
from holdfast.model.archive import Purpose
from holdfast.model.move import FORMAT, Pass, Ready
from holdfast.ports.archive import Archiver, UpdateJob
from holdfast.ports.sealing import CannotOpen, Opener
from holdfast.ports.storage import Receivable


class Receiving:
    """`home` is the directory of the archiver."""

    def __init__(
        self,
        *,
        books: Books,
        passage: Passage,
        archiver: Archiver,
        opener: Opener,
        arriving: Arriving,
        readiness: Readiness,
        progress: MoveProgress,
        home: str,
        fleet: str,
    ) -> None:
        self._books = books
        self._passage = passage
        self._archiver = archiver
        self._opener = opener
        self._arriving = arriving
        self._readiness = readiness
        self._progress = progress
        self._home = home
        self._fleet = fleet

    async def run(self, moving: Moving) -> None:
        """Until the data is here and the source knows it. Raises what keeps it from that; the same call again goes
        on."""
        if not self._arriving.landing.book(moving).has_arrived:
            await self._receive(moving)
        await self._say(moving, self._arriving.landing.book(moving).number, has_all=True)
        self._books.keep_into(moving.service, replace(self._arriving.landing.book(moving), is_told=True))
        self._progress.end(moving)

    async def _receive(self, moving: Moving) -> None:
        known_peer(moving, moving.source)
        proof, word = self._arriving.landing.may_receive(moving), None
        await self.begin(moving)
        await self._say_again(moving)
        while not self._arriving.landing.book(moving).placing:
            self._progress.step(moving, "receive", f"waits for {moving.source}")
            word = await self._next(moving)
            if word.untaken:
                await self._go_back(moving)
                return
            if word.taken:
                raise _lost(moving)
            await self._unpack(moving, proof, word)
            if word.is_last:
                await self.forget(moving.service)
                break
            await self._say_ready(moving)
        self._progress.step(moving, "take in", "the data takes its place")
        await self._arriving.take_in(moving, proof, word)

    async def _say_again(self, moving: Moving) -> None:
        """An agent that died after a pass may not have said that it has it."""
        book = self._arriving.landing.book(moving)
        if book.number and not book.placing:
            await self._say_ready(moving)

    async def _say_ready(self, moving: Moving) -> None:
        await self._readiness.prepare(moving)
        await self._say(moving, self._arriving.landing.book(moving).number)

    async def begin(self, moving: Moving) -> None:
        self._books.keep_into(moving.service, self._arriving.landing.book(moving))

    async def _go_back(self, moving: Moving) -> None:
        if not (moving.move.back and self._arriving.may_go_back(moving)):
            raise Failed(
                f"{moving.source} never had the data of {moving.service}: the move to it was not complete",
                remedy=f"`holdfast status` shows which nodes have copies of {moving.service}; "
                f"`holdfast backup list {moving.service}` shows its backups",
                code="untaken",
            )
        await self._arriving.go_back(moving)

    async def forget(self, service: str) -> None:
        """What the archiver keeps for the next pass: never once a service has the data."""
        await self._archiver.forget(self._place(service))

    def _place(self, service: str) -> str:
        return os.path.join(self._home, service, "move-in")

    async def _say(self, moving: Moving, number: int, has_all: bool = False) -> None:
        word = Ready(FORMAT, self._fleet, moving.service, moving.epoch, moving.target, number, has_all)
        await self._passage.say(moving, word)

    async def _next(self, moving: Moving) -> Pass:
        """The newest pass; earlier ones need not be unpacked."""
        pause = Pause(self._passage.pause)
        while True:
            found = await self._passage.newest(moving)
            if found is not None and (found.number > self._arriving.landing.book(moving).number or found.is_last):
                return found
            await pause.over()

    async def _unpack(self, moving: Moving, proof: Receivable, word: Pass) -> None:
        """The first one into an empty directory, later ones over what is there. What an agent left in the middle is
        known to the archiver."""
        book = self._arriving.landing.book(moving)
        if word.manifest == book.manifest:
            return  # before a crash
        self._progress.step(moving, "receive", f"pass {word.number} is unpacked")
        place = await asyncio.to_thread(self._arriving.landing.place, proof, bool(book.manifest))
        job = UpdateJob(
            manifest=await self._manifest(moving, word),
            digest=word.manifest,
            identity=await self._identity(moving),
            purpose=Purpose(self._fleet, moving.service, moving.epoch),
            home=self._place(moving.service),
            top=place.path,
            urgent=word.is_last,
        )
        fetch, tell = partial(self._pack, moving), self._progress.telling(moving)
        try:
            if place.is_old:
                await self._archiver.update(job, fetch, tell)
            else:
                await self.forget(moving.service)
                await self._archiver.unpack(job, fetch, tell)
        except Conflict:  # it is not what was left there: begin again
            self._books.keep_into(moving.service, replace(book, number=0, manifest=""))
            raise
        self._books.keep_into(moving.service, replace(book, number=word.number, manifest=word.manifest))

    async def _pack(self, moving: Moving, digest: str) -> bytes:
        return await self._passage.objects.pack(moving.service, moving.epoch, digest)

    async def _manifest(self, moving: Moving, word: Pass) -> bytes:
        objects = self._passage.objects
        return await objects.read(f"{objects.above(moving.service, moving.epoch)}manifests/{word.manifest}")

    async def _identity(self, moving: Moving) -> str:
        objects, purpose = self._passage.objects, Purpose(self._fleet, moving.service, moving.epoch)
        for name in await objects.key_names(moving.service, moving.epoch):
            try:
                return archive_key.read(self._opener.open(await objects.read(name)), purpose).identity
            except (CannotOpen, Corrupt):
                continue
        raise TryLater(
            f"the key of {moving.service} from {moving.source} is not here yet, or not for this node",
            remedy="`holdfast status` shows both nodes",
            code="cannot_open",
        )


def _lost(moving: Moving) -> Failed:
    return Failed(
        f"this node took the data of {moving.service} from {moving.source}, and has it no more: its state was put back",
        remedy=f"`holdfast retired restore {moving.service} -n {moving.source}` goes on with the copy that "
        f"{moving.source} kept; `holdfast backup list {moving.service}` shows backups that are newer",
        code="data_lost",
    )
