"""The revision in force as this node can follow it now: services whose data is not here yet wait, and services that
are placed elsewhere and whose data is still here run on as they were."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.keeper import Revision
from holdfast.agent.moves.books import Books
from holdfast.agent.services.data.passports import Passports
from holdfast.model import coverage
from holdfast.model.checkpoint import moved_id
from holdfast.model.fleet import Service
from holdfast.model.revision import Entry
from holdfast.ports.storage import Storage
from holdfast.reconcile import moves as rules
from holdfast.reconcile.moves import Into

_service = msgspec.json.Decoder(Service).decode


class Effective:
    """`content` reads a document of the revision by its digest."""

    def __init__(
        self, books: Books, passports: Passports, storage: Storage, content: Callable[[str], bytes | None]
    ) -> None:
        self._books = books
        self._content = content
        self._passports = passports
        self._storage = storage

    def of(self, revision: Revision) -> Revision:
        manifest = revision.manifest
        awaited = {a: e for a, e in manifest.services.items() if self._awaits(a, e)}
        services = {a: e for a, e in manifest.services.items() if a not in awaited}
        for address, entry in manifest.handover.items():
            kept = rules.runs_on(entry, self._books.out(address.partition(".")[2]))
            if kept is not None:
                services[address] = kept
        if services == manifest.services:
            return revision
        return replace(revision, manifest=replace(manifest, services=dict(sorted(services.items()))), awaited=awaited)

    def _awaits(self, address: str, entry: Entry) -> bool:
        service = address.partition(".")[2]
        if entry.move is not UNSET and entry.move.kept:
            return not self._passports.of_service(service)  # it has no copy, and must not begin with nothing
        if self._books.is_bare(service, entry.epoch):
            return not self._has_data(service) and self._has_backups(service, entry)
        if not rules.awaits(entry, self._books.into(service)):
            return False
        self._remember(service, entry.epoch)
        return rules.awaits(entry, self._books.into(service))

    def _has_data(self, service: str) -> bool:
        """Of a disk that outlived the machine, or restored by an order."""
        found = self._storage.content(service)
        return bool(self._passports.of_service(service)) or (found is not None and found.entries > 0)

    def _has_backups(self, service: str, entry: Entry) -> bool:
        """By its declaration. One that cannot be read waits."""
        try:
            found = _service(self._content(entry.digest) or b"")
        except msgspec.DecodeError:
            return True
        return coverage.is_backed_up(coverage.of_service(service, found))

    def _remember(self, service: str, epoch: int) -> None:
        """After a lost journal, or one that was put back: a passport that this node signed shows that the data came in
        this epoch. One that is `placing` goes on from there, with all that came along."""
        into = self._books.into(service)
        is_placing = into is not None and into.epoch == epoch and into.placing
        found = [] if is_placing else self._passports.beside(service)
        if any(one.maker == moved_id(epoch) for one in found):
            for one in found:
                self._passports.keep(one)
            self._books.keep_into(service, Into(epoch, has_arrived=True, is_told=True))
