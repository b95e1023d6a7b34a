"""What commands may use of files outside their own code; wiring provides it. Names no product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # protocols: loading them would cost every command 3 ms
    from holdfast.model.certificate import CertificateFacts
    from holdfast.model.fleet import Storage
    from holdfast.ports.archive import Archiver
    from holdfast.ports.backup_objects import BackupObjects
    from holdfast.ports.backup_target import BackupTarget
    from holdfast.ports.fleet_directory import FleetDirectory
    from holdfast.ports.hub_files import HubFiles
    from holdfast.ports.registry import Registry


class Files(Protocol):
    """What a fleet directory consists of and names."""

    def fleet(self, path: str) -> FleetDirectory: ...

    def held(self, files: Mapping[str, bytes]) -> FleetDirectory:
        """A fleet directory of these files, by path, which is on no disk."""
        ...

    def registry(self) -> Registry: ...

    def certificate(self, der: bytes) -> CertificateFacts:
        """The decoded fields of a certificate; Corrupt if it is not one."""
        ...

    def archiver(self) -> Archiver:
        """Opens archives of backups, in a process of its own."""
        ...

    def target(self, storage: Storage, secret: bytes) -> BackupTarget:
        """A storage target as it is declared, with its opened credentials; for a reader on this machine."""
        ...

    def directory_target(self, path: str) -> BackupTarget:
        """The target whose marker is in this directory; Invalid if it has none."""
        ...

    def hub_store(self, state_dir: str) -> BackupObjects:
        """The backups that a hub stores."""
        ...

    def hub(self) -> HubFiles:
        """The state of a hub as one archive."""
        ...
