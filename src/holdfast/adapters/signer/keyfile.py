"""A signer with an OpenSSH private key file, and its creation. Stores no passphrase."""

import binascii
import os
import re
import stat
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.errors import Corrupt, Invalid, NotPermitted
from holdfast.model import ssh_key
from holdfast.model.ssh_key import PublicKey
from holdfast.ports.disk import Disk
from holdfast.trust import sshsig

FILE_BYTES_MAX = 64 * 1024
ATTEMPTS_MAX = 3
_MAGIC = b"openssh-key-v1\0"
_PLAIN = _MAGIC + ssh_key.pack(b"none", b"none", b"") + (1).to_bytes(4, "big")  # without a cipher, and one key
_CHECK_BYTES = 8  # twice the same four
_PUBLIC = (b"ssh-", b"ecdsa-", b"sk-")
_PRIVATE = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")  # of any format
_BEGIN, _END = b"-----BEGIN OPENSSH PRIVATE KEY-----", b"-----END OPENSSH PRIVATE KEY-----"

if TYPE_CHECKING:  # `cryptography` takes 70 ms to load, and identifying a key does not need it
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    PrivateKey = ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


class KeyfileSigner:
    """Asks for the passphrase at most once: keep one signer per process."""

    def __init__(self, path: str, ask: Callable[[str], str]) -> None:
        self._path = path
        self._ask = ask

    @cached_property
    def public_key(self) -> PublicKey:
        return public_half(self._path)

    def sign(self, message: bytes, namespace: str) -> str:
        data = sshsig.signed_data(message, namespace)
        blob = _signature_blob(self._private, self.public_key.type, data)
        return sshsig.armour(self.public_key, namespace, blob, "sha512")

    @cached_property
    def _private(self) -> "PrivateKey":
        private = self._opened()
        if _public_of(private).blob != self.public_key.blob:
            raise Corrupt(
                f"{self._path}.pub is not the public half of {self._path}",
                remedy=f"write it again: ssh-keygen -y -f {_quoted(self._path)} > {_quoted(self._path)}.pub",
            )
        return private

    def _opened(self) -> "PrivateKey":
        content = _read_private(self._path)
        cipher, public = _open_part(content, self._path)
        if public.type.startswith("sk-"):
            raise Invalid(
                f"{self._path} belongs to a security key",
                remedy="write its public half again: "
                f"ssh-keygen -y -f {_quoted(self._path)} > {_quoted(self._path)}.pub",
            )
        if cipher != b"none":
            return self._unlocked(content)
        return _plain_ed25519(content) or _load(content, None, self._path)

    def _unlocked(self, content: bytes) -> "PrivateKey":
        for _ in range(ATTEMPTS_MAX):
            passphrase = self._ask(f"Passphrase for {self._path}: ").encode()
            try:
                return _load(content, passphrase or b"\0", self._path)
            except Corrupt as trouble:
                if "checksum" not in trouble.message:  # the library's error for a wrong passphrase
                    raise
        raise NotPermitted(
            f"{ATTEMPTS_MAX} wrong passphrases for {self._path}",
            remedy=f"test the passphrase: ssh-keygen -y -f {_quoted(self._path)}",
        )


def make(path: str, comment: str, passphrase: str, disk: Disk) -> str:
    """A new ed25519 key pair in FILE and FILE.pub, encrypted unless the passphrase is empty. Returns the public key."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    lock = form.BestAvailableEncryption(passphrase.encode()) if passphrase else form.NoEncryption()
    public = private.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH).decode()
    disk.make_directory(os.path.dirname(os.path.abspath(path)), 0o700)
    disk.replace(path, private.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, lock), 0o600)
    disk.replace(path + ".pub", f"{public} {comment}\n".encode(), 0o644)
    return public


def public_half(path: str) -> PublicKey:
    """The public key of a key file without its passphrase: from FILE.pub, or from the file's unencrypted part."""
    try:
        text = _read(path + ".pub").decode()
    except FileNotFoundError:
        return _open_part(_read_private(path), path)[1]
    except UnicodeDecodeError:
        text = ""
    try:
        return ssh_key.parse(text)
    except Invalid as trouble:
        again = f"write it again: ssh-keygen -y -f {_quoted(path)} > {_quoted(path)}.pub"
        remedy = trouble.remedy if trouble.remedy == ssh_key.MAKE_NEW else again
        raise Invalid(f"{path}.pub: {trouble.message}", remedy=remedy) from None


def _read_private(path: str) -> bytes:
    try:
        return _read(path, private=True)
    except FileNotFoundError:
        raise Invalid(
            f"there is no key file {path}", remedy=f"create one: ssh-keygen -t ed25519 -f {_quoted(path)}"
        ) from None


def _read(path: str, private: bool = False) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(FILE_BYTES_MAX + 1) if stat.S_ISREG(mode) else b""
    except PermissionError:
        raise NotPermitted(f"you may not read {path}", remedy=f"sudo chown $USER {_quoted(path)}") from None
    except IsADirectoryError:
        mode, content = 0, b""
    if not content or len(content) > FILE_BYTES_MAX:
        raise _no_key(path)
    if private and mode & 0o077 and content.startswith(_PUBLIC):
        raise NotPermitted(f"{path} is the public half of a key", remedy=_private_half(path))
    if private and not _PRIVATE.search(content) and not content.startswith(_PUBLIC):
        raise _no_key(path)
    if private and mode & 0o077:
        raise NotPermitted(f"other users may read or write {path}, a private key", remedy=f"chmod 600 {_quoted(path)}")
    return content


def _no_key(path: str) -> Invalid:
    return Invalid(f"{path} is not a key file", remedy="give a private key file, such as ~/.ssh/id_ed25519: --key FILE")


def _private_half(path: str) -> str:
    return f"give the private half: --key {_quoted(path.removesuffix('.pub')) if path.endswith('.pub') else 'FILE'}"


def _open_part(content: bytes, path: str) -> tuple[bytes, PublicKey]:
    """The cipher and the public key, which an OpenSSH key file holds unencrypted."""
    text = content.strip()
    if not text.startswith(_BEGIN) or not text.endswith(_END):
        remedy = f"convert it to the OpenSSH format: ssh-keygen -p -f {_quoted(path)}"
        remedy = _private_half(path) if text.startswith(_PUBLIC) else remedy
        raise Invalid(f"{path} is not an OpenSSH private key file", remedy=remedy)
    try:
        blob = binascii.a2b_base64(text.removeprefix(_BEGIN).removesuffix(_END))
        if not blob.startswith(_MAGIC):
            raise ValueError("its first bytes are wrong")
        cipher, offset = ssh_key.take(blob, len(_MAGIC))
        _, offset = ssh_key.take(blob, offset)  # the key derivation
        _, offset = ssh_key.take(blob, offset)  # its options
        public, offset = ssh_key.take(blob, offset + 4)  # after the number of keys, which is always one
        ssh_key.take(blob, offset)  # the private part: if it is cut off, no passphrase can work
    except ValueError as trouble:
        raise _damaged(path, str(trouble)) from None
    return cipher, ssh_key.from_blob(public)


def _plain_ed25519(content: bytes) -> "ed25519.Ed25519PrivateKey | None":
    """The usual key, read without the library's parser, which takes 15 ms to load. None: the library reads or refuses
    it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        blob = binascii.a2b_base64(content.strip().removeprefix(_BEGIN).removesuffix(_END))
        if not blob.startswith(_PLAIN):
            return None
        public, secret = ssh_key.strings(blob[len(_PLAIN) :])
        kind, point = ssh_key.strings(public)
        pair, at = ssh_key.take(secret, _CHECK_BYTES + len(public))
        _, at = ssh_key.take(secret, at)  # the comment
    except ValueError:
        return None
    check, padding = secret[: _CHECK_BYTES // 2], secret[at:]
    begins = check + check + public
    is_sound = secret.startswith(begins) and padding == bytes(range(1, len(padding) + 1)) and len(secret) % 8 == 0
    if kind != b"ssh-ed25519" or len(pair) != 64 or pair[32:] != point or not is_sound:
        return None
    private = Ed25519PrivateKey.from_private_bytes(pair[:32])
    return private if private.public_key().public_bytes_raw() == point else None


def _load(content: bytes, passphrase: bytes | None, path: str) -> "PrivateKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    try:
        private = serialization.load_ssh_private_key(content, passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm) as trouble:
        raise _damaged(path, str(trouble)) from None
    if not isinstance(private, (ed25519.Ed25519PrivateKey, rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
        raise Invalid(f"{path} has an unsupported type of key", remedy="create another: ssh-keygen -t ed25519")
    return private


def _damaged(path: str, why: str) -> Corrupt:
    return Corrupt(
        f"{path} is damaged: {why}", remedy=f"restore it from your backup; to test: ssh-keygen -y -f {_quoted(path)}"
    )


def _public_of(private: "PrivateKey") -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if isinstance(private, Ed25519PrivateKey):
        blob = ssh_key.pack(b"ssh-ed25519", private.public_key().public_bytes_raw())
        return ssh_key.from_blob(blob)
    from cryptography.hazmat.primitives import serialization

    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return ssh_key.parse(private.public_key().public_bytes(*form).decode("ascii"))


def _signature_blob(private: "PrivateKey", key_type: str, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if isinstance(private, Ed25519PrivateKey):
        return ssh_key.pack(key_type.encode(), private.sign(data))
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

    if isinstance(private, rsa.RSAPrivateKey):
        return ssh_key.pack(b"rsa-sha2-512", private.sign(data, padding.PKCS1v15(), hashes.SHA512()))
    digest = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}[private.key_size]
    r, s = utils.decode_dss_signature(private.sign(data, ec.ECDSA(digest)))
    return ssh_key.pack(key_type.encode(), ssh_key.pack(ssh_key.pack_integer(r), ssh_key.pack_integer(s)))


def _quoted(path: str) -> str:
    """For remedies; a command that has no trouble need not load shlex (ADR 0003)."""
    from shlex import quote

    return quote(path)
