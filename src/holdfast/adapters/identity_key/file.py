"""A machine's Ed25519 key in an OpenSSH private key file (0600). It is generated here and never sent.

The file is read with our own parser: it accepts only the unencrypted Ed25519 form that `make` writes, and loading
a key costs no import of the cryptography library.
"""

from __future__ import annotations

import binascii
import os
import stat
from shlex import quote
from typing import TYPE_CHECKING

from holdfast.errors import Corrupt, Failed, NotPermitted
from holdfast.model import ssh_key
from holdfast.model.ssh_key import PublicKey

if TYPE_CHECKING:  # the import takes 30 ms, which code that only reads the public key avoids
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from holdfast.ports.disk import Disk
    from holdfast.ports.random_source import RandomSource

FILE_BYTES_MAX = 4096
_TYPE = "ssh-ed25519"
_MAGIC = b"openssh-key-v1\0"
_BEGIN, _END = "-----BEGIN OPENSSH PRIVATE KEY-----\n", "-----END OPENSSH PRIVATE KEY-----\n"
_LINE_CHARS, _BLOCK_BYTES = 70, 8


class FileIdentityKey:
    def __init__(self, line: str, seed: bytes) -> None:
        """Use `load`, `make` or `load_or_make`."""
        self.line = line
        self._seed = seed
        self._private: Ed25519PrivateKey | None = None

    def sign(self, message: bytes) -> bytes:
        if self._private is None:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

            private = Ed25519PrivateKey.from_private_bytes(self._seed)
            if _line(private.public_key().public_bytes_raw()) != self.line:
                raise _damaged("the key file", "its private and public halves do not match")
            self._private = private
        return self._private.sign(message)

    def __repr__(self) -> str:  # never the seed, so that no traceback or log shows it
        return f"FileIdentityKey({self.line})"


def load(path: str) -> FileIdentityKey | None:
    """None if the file does not exist; anything but a valid key is refused."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as trouble:
        raise _unusable(path, trouble) from trouble
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise _damaged(path, "it is not a regular file")
        if about.st_mode & 0o077:
            raise NotPermitted(
                f"other users may read {path}, a private key",
                remedy=f"chmod 600 {quote(path)}; if another user may have read it, revoke this node and join it again",
                code="key_exposed",
            )
        return read(os.read(handle, FILE_BYTES_MAX + 1), path)
    except OSError as trouble:
        raise _unusable(path, trouble) from trouble
    finally:
        os.close(handle)


def make(path: str, disk: Disk, random: RandomSource) -> FileIdentityKey:
    """A new key, durable before it is used. Replaces an existing file, so call `load` first."""
    key, content = made(random)
    disk.make_directory(os.path.dirname(os.path.abspath(path)), 0o700)
    disk.replace(path, content, 0o600)
    return key


def load_or_make(path: str, disk: Disk, random: RandomSource) -> FileIdentityKey:
    return load(path) or make(path, disk, random)


def made(random: RandomSource) -> tuple[FileIdentityKey, bytes]:
    """A new key and the content of its file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    seed = random.token(32)
    point = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return FileIdentityKey(_line(point), seed), _render(point, seed, random.token(4))


def read(content: bytes, path: str) -> FileIdentityKey:
    """A key from the content of its file."""
    try:
        return _key(content)
    except ValueError as trouble:
        raise _damaged(path, str(trouble)) from None


def _line(point: bytes) -> str:
    return ssh_key.line(PublicKey(_TYPE, ssh_key.pack(_TYPE.encode(), point)))


def _render(point: bytes, seed: bytes, check: bytes) -> bytes:
    public = ssh_key.pack(_TYPE.encode(), point)
    private = check + check + public + ssh_key.pack(seed + point, b"")
    private += bytes(range(1, 1 + -len(private) % _BLOCK_BYTES))
    blob = _MAGIC + ssh_key.pack(b"none", b"none", b"") + (1).to_bytes(4, "big") + ssh_key.pack(public, private)
    text = binascii.b2a_base64(blob, newline=False).decode("ascii")
    lines = (text[at : at + _LINE_CHARS] + "\n" for at in range(0, len(text), _LINE_CHARS))
    return (_BEGIN + "".join(lines) + _END).encode("ascii")


def _key(content: bytes) -> FileIdentityKey:
    """Parse it and render it again: a key has exactly one valid file, so any difference is damage."""
    text = content.decode("ascii")
    if len(content) > FILE_BYTES_MAX or not text.startswith(_BEGIN) or not text.endswith(_END):
        raise ValueError("it is not an OpenSSH private key file")
    blob = binascii.a2b_base64(text.removeprefix(_BEGIN).removesuffix(_END).replace("\n", ""), strict_mode=True)
    head = len(_MAGIC + ssh_key.pack(b"none", b"none", b"")) + 4
    public, private = ssh_key.strings(blob[head:])
    _, point = ssh_key.strings(public)
    check, pair = private[:4], ssh_key.take(private, 8 + len(public))[0]
    if len(pair) != 64 or pair[32:] != point or _render(point, pair[:32], check) != content:
        raise ValueError("it is not a single unencrypted Ed25519 key without comment, as Holdfast writes it")
    return FileIdentityKey(_line(point), pair[:32])


def _damaged(path: str, why: str) -> Corrupt:
    return Corrupt(
        f"{path} is not a valid machine key: {why}",
        remedy=f"restore {path} from a backup of this machine; or delete it and join the machine again",
        code="key_damaged",
    )


def _unusable(path: str, trouble: OSError) -> Failed:
    return Failed(
        f"cannot read the private key {path}: {trouble.strerror}",
        remedy=f"run this as the owner of {path}; this shows the owner: sudo ls -l {path}",
        code="key_unreadable",
    )
