"""What a fleet directory consists of and names: its files, images in a registry, certificates; and archives."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.model.certificate import CertificateFacts
    from holdfast.model.fleet import Storage
    from holdfast.ports.archive import Archiver
    from holdfast.ports.backup_objects import BackupObjects
    from holdfast.ports.backup_target import BackupTarget
    from holdfast.ports.fleet_directory import FleetDirectory
    from holdfast.ports.hub_files import HubFiles
    from holdfast.ports.registry import Registry


class SystemFiles:
    def fleet(self, path: str) -> "FleetDirectory":
        from holdfast.adapters.fleet_directory.posix import PosixFleetDirectory

        return PosixFleetDirectory(path)

    def held(self, files: Mapping[str, bytes]) -> "FleetDirectory":
        from holdfast.adapters.fleet_directory.memory import MemoryFleetDirectory

        return MemoryFleetDirectory(files)

    def registry(self) -> "Registry":
        from holdfast.adapters.registry.oci import OciRegistry

        return OciRegistry()

    def certificate(self, der: bytes) -> "CertificateFacts":
        from holdfast.adapters.certificates import x509

        return x509.facts(der)

    def archiver(self) -> "Archiver":
        from holdfast.adapters.archive.process import ProcessArchiver

        return ProcessArchiver()

    def target(self, storage: "Storage", secret: bytes) -> "BackupTarget":
        from holdfast.wiring.targets import opener

        return opener("", "")(storage, secret, None)

    def directory_target(self, path: str) -> "BackupTarget":
        from holdfast.adapters.backup_target.local_dir import of_marker

        return of_marker(path)

    def hub_store(self, state_dir: str) -> "BackupObjects":
        from holdfast.adapters.backup_target.store_directory import StoreDirectory

        return StoreDirectory(os.path.join(state_dir, "backups"))

    def hub(self) -> "HubFiles":
        from holdfast.adapters.hub_files.tar import TarHubFiles

        return TarHubFiles()
