"""Ledger directories of this machine: how one is opened, read and made ready for a hub."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.adapters.ledger_store.sqlite.store import SqliteReader
    from holdfast.hub.ledger.revision_reader import RevisionReader
    from holdfast.hub.ledger.revisions import Revisions
    from holdfast.ports.high_water import HighWater
    from holdfast.ports.hub_link import HubLink
    from holdfast.ports.ledger_store import LedgerReader, LedgerStore
    from holdfast.wiring.cli import SystemToolbox

LEDGER_FILE = "ledger.db"
HIGH_WATER_FILE = "high-water"
HUB_LOCK_FILE = "hub.lock"


class SystemLedgers:
    def __init__(self, box: "SystemToolbox") -> None:
        self._box = box
        self.served: LedgerStore | None = None  # the ledger of the hub that this process is
        self._readers: list[SqliteReader] = []  # closed before a writer opens it

    def store(self, state_dir: str, create: bool) -> "LedgerStore":
        from holdfast.adapters.ledger_store.sqlite.store import SqliteStore

        for reader in self._readers:
            reader.rest()
        store = SqliteStore.open(os.path.join(state_dir, LEDGER_FILE), create)
        self._box.ends_with(store.leave)
        return store

    def reader(self, state_dir: str) -> "LedgerReader":
        from holdfast.adapters.ledger_store.sqlite.store import SqliteStore

        reader = SqliteStore.open_read_only(os.path.join(state_dir, LEDGER_FILE))
        self._readers.append(reader)
        self._box.ends_with(reader.close)
        return reader

    def high_water(self, state_dir: str) -> "HighWater":
        from holdfast.adapters.high_water.file import FileHighWater

        return FileHighWater(os.path.join(state_dir, HIGH_WATER_FILE), self._box.disk)

    def revision_reader(self, state_dir: str) -> "RevisionReader | None":
        if not os.path.lexists(os.path.join(state_dir, LEDGER_FILE)):
            return None
        from holdfast.hub.ledger import reading
        from holdfast.hub.ledger.revision_reader import RevisionReader

        store = self.reader(state_dir)
        return RevisionReader(store, self._box.clock, reading.load(store))

    def revisions(self, state_dir: str) -> "Revisions":
        from holdfast.hub.ledger import reading
        from holdfast.hub.ledger.revisions import Revisions

        store = self.store(state_dir, create=True)
        box = self._box
        return Revisions(store, box.clock, box.random, self.high_water(state_dir), reading.load(store))

    def booted(self, state_dir: str, strict: bool) -> "HubLink":
        from holdfast.hub.ledger.boot import boot_in_order
        from holdfast.hub.ledger.revisions import Revisions

        booted, self.served = boot_in_order(
            reader=lambda: self.reader(state_dir),
            high_water=self.high_water(state_dir),
            lock=lambda: self._lock(state_dir),
            store=lambda: self.store(state_dir, create=False),
            strict=strict,
        )
        box = self._box
        marks = self.high_water(state_dir)
        return Revisions(self.served, box.clock, box.random, marks, booted.loaded, booted.findings)

    def _lock(self, state_dir: str) -> None:
        from holdfast.adapters.machine.lock import DirectoryLock

        self._box.ends_with(DirectoryLock(state_dir, "hub", HUB_LOCK_FILE).release)

    def legacy(self, config: str) -> "HubLink":
        from holdfast.declared.load import load
        from holdfast.hub.ledger.legacy import LegacySource, directory_of

        return LegacySource(load(self._box.files.fleet(directory_of(config))))
