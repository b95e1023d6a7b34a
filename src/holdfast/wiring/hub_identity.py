"""The key and the certificate of a hub. Loads little, as `holdfast hub init` needs no more of a hub."""

import os
from collections.abc import Sequence

from holdfast.adapters.identity_key import file as key_file
from holdfast.adapters.tls.hub import HubTls
from holdfast.ports.clock import Clock
from holdfast.ports.disk import Disk
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.random_source import RandomSource

KEY_FILE = "hub.key"
CERTIFICATE_FILE = "hub.crt"


def identity(path: str | None, disk: Disk, random: RandomSource) -> tuple[IdentityKey, bytes]:
    """The key and the content of its file; without a path a key for the life of this process."""
    if path is None:
        return key_file.made(random)
    key = key_file.load_or_make(path, disk, random)
    return key, disk.read(path, key_file.FILE_BYTES_MAX) or b""


def tls(private: bytes, state_dir: str | None, names: Sequence[str], clock: Clock, disk: Disk) -> HubTls:
    path = os.path.join(state_dir, CERTIFICATE_FILE) if state_dir is not None else ""
    return HubTls(private, names, path, clock, disk)
