"""Make a target of backups out of its declaration and its opened credentials."""

import re
from base64 import b64decode
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from holdfast.adapters.backup_target.usb import MountDesk, UsbDisk
from holdfast.errors import Invalid
from holdfast.model import storage_target
from holdfast.model.fleet import Storage
from holdfast.ports.backup_target import BackupTarget, Mountable, OpenTarget

if TYPE_CHECKING:
    from holdfast.adapters.backup_target.ssh_login import SshLogin


def opener(requests: str, mounted: str) -> OpenTarget:
    """`requests` and `mounted` are the two directories of the unit holdfast-mounts. Products are imported when a target
    needs them: most nodes have none."""
    desk = MountDesk(requests, mounted)

    def opened(storage: Storage, secret: bytes, proof: Mountable | None) -> BackupTarget:
        match storage.type:
            case "usb" if proof is not None:
                return UsbDisk(desk, proof)
            case "local-dir":
                return _directory(storage)
            case "s3":
                return _bucket(storage, secret)
            case "restic":
                return _repository(storage, secret)
        raise Invalid(
            f"this release has no targets of type {storage.type}",
            remedy='write type = "local-dir", "usb", "s3" or "restic"',
            code="not_built",
        )

    return opened


def _directory(storage: Storage) -> BackupTarget:
    from holdfast.adapters.backup_target import share
    from holdfast.adapters.backup_target.local_dir import LocalDir

    is_share = storage_target.is_share(storage.durable_id)
    belongs = partial(share.belongs, durable_id=storage.durable_id) if is_share else None
    return LocalDir(storage.location, storage.durable_id, belongs)


def _bucket(storage: Storage, secret: bytes) -> BackupTarget:
    from holdfast.adapters.backup_target.s3 import S3Target, credentials

    place = storage_target.bucket(storage.location)
    if place is None:
        raise Invalid(f"{storage.location[:80]!r} is not the address of a bucket", remedy="correct it in fleet.toml")
    return S3Target(place, credentials(secret), storage.durable_id)


def _repository(storage: Storage, secret: bytes) -> BackupTarget:
    from holdfast.adapters.backup_target import sealed_lines
    from holdfast.adapters.backup_target.restic import Restic, ResticTarget

    found = sealed_lines.read(secret)
    if "RESTIC_PASSWORD" not in found:
        raise Invalid(
            "the credentials of the repository lack RESTIC_PASSWORD",
            remedy="seal one line: RESTIC_PASSWORD=…",
            code="target_credentials",
        )
    location, user = storage.location, found.get("RESTIC_REST_USERNAME", "")
    if user and location.startswith("rest:"):
        location = re.sub("//", f"//{user}:{found.get('RESTIC_REST_PASSWORD', '')}@", location, count=1)
    login = _login(found) if location.startswith("sftp:") else None
    return ResticTarget(Restic(location, found["RESTIC_PASSWORD"].encode(), login), storage.durable_id)


def _login(found: Mapping[str, str]) -> "SshLogin":
    from holdfast.adapters.backup_target.ssh_login import SshLogin

    try:
        return SshLogin(b64decode(found["RESTIC_SSH_KEY"], validate=True), found["RESTIC_SSH_HOST_KEY"])
    except (KeyError, ValueError):
        raise Invalid(
            "the credentials of the repository lack RESTIC_SSH_KEY or RESTIC_SSH_HOST_KEY, or the key is not in base64",
            remedy="seal the lines RESTIC_SSH_KEY=… (the private key, in base64 on one line) and "
            "RESTIC_SSH_HOST_KEY=… (ssh-ed25519 AAAA…, as the server's /etc/ssh/ssh_host_ed25519_key.pub has it)",
            code="target_credentials",
        ) from None
