"""Adopt the machine's SSH host key as the node's key. Copies it; does not change the host key file."""

import os

from holdfast.adapters.identity_key import file
from holdfast.adapters.identity_key.file import FileIdentityKey
from holdfast.errors import Failed, Invalid
from holdfast.ports.disk import Disk
from holdfast.ports.random_source import RandomSource

_BYTES_MAX = 16 * 1024


class _Given:
    """A random source that returns an existing seed for requests of the seed's size."""

    def __init__(self, seed: bytes, rest: RandomSource) -> None:
        self._seed = seed
        self._rest = rest

    def token(self, size_bytes: int) -> bytes:
        return self._seed if size_bytes == len(self._seed) else self._rest.token(size_bytes)


def adopt(source: str, path: str, disk: Disk, random: RandomSource) -> FileIdentityKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    content = _read(source, disk)
    try:
        private = load_ssh_private_key(content, None)
    except (ValueError, TypeError) as trouble:
        raise _unfit(source, "it is not an unencrypted OpenSSH private key") from trouble
    if not isinstance(private, Ed25519PrivateKey):
        raise _unfit(source, "it is not an Ed25519 key")
    return file.make(path, disk, _Given(private.private_bytes_raw(), random))


def _read(source: str, disk: Disk) -> bytes:
    content = disk.read(os.path.abspath(source), _BYTES_MAX)
    if content is None:
        raise Failed(f"there is no key at {source}", remedy="ls /etc/ssh/ssh_host_ed25519_key", code="no_key")
    return content


def _unfit(source: str, why: str) -> Invalid:
    return Invalid(
        f"cannot use {source} as this node's key: {why}",
        remedy="give an Ed25519 host key: --host-key /etc/ssh/ssh_host_ed25519_key; or omit --host-key for a new key",
        code="key_form",
    )
