"""The revision in force as this node can follow it now: services whose data is not here yet wait, and services that
are placed elsewhere and whose data is still here run on as they were."""

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.keeper import Revision
from holdfast.agent.moves.books import Books
from holdfast.agent.services.data.passports import Passports
from holdfast.model.checkpoint import moved_id
from holdfast.model.revision import Entry
from holdfast.ports.storage import Storage
from holdfast.reconcile import moves as rules
from holdfast.reconcile.moves import Into


class Effective:
    def __init__(self, books: Books, passports: Passports, storage: Storage) -> None:
        self._books = books
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
        if not rules.awaits(entry, self._books.into(service)):
            return False
        self._remember(service, entry.epoch)
        return rules.awaits(entry, self._books.into(service))

    def _remember(self, service: str, epoch: int) -> None:
        """After a lost journal: a passport that this node signed shows that the data came in this epoch."""
        into = self._books.into(service)
        found = self._storage.content(service) if into is None or into.epoch != epoch else None
        passports = (self._passports.of(f"{service}/{name}") for name in found.names) if found is not None else ()
        if any(one is not None and one.maker == moved_id(epoch) for one in passports):
            self._books.keep_into(service, Into(epoch, has_arrived=True, is_told=True))
