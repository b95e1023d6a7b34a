"""Route certificates as files, one per name: the chain, then the key. A truncated file lacks the key's end."""

import os
import re

from holdfast.errors import Corrupt, Failed, HoldfastError
from holdfast.ports.certificate_store import StoredCertificate
from holdfast.ports.disk import Disk
from holdfast.trust.certificates import checked_name

FILE_BYTES_MAX = 128 * 1024
_WHOLE = re.compile(
    rb"(?P<chain>(?:-----BEGIN CERTIFICATE-----\n[^-]+-----END CERTIFICATE-----\n)+)"
    rb"(?P<private>-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY)-----\n[^-]+-----END (?P=kind)-----\n)"
)


class FileShelf:
    def __init__(self, directory: str, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk

    def names(self) -> tuple[str, ...]:
        """A name that does not start like a hostname is not ours: incomplete files start with a dot."""
        try:
            return tuple(sorted(name for name in os.listdir(self._directory) if name[:1].isalnum()))
        except FileNotFoundError:
            return ()
        except OSError as trouble:
            raise _trouble(self._directory, trouble) from trouble

    def kept(self, name: str) -> StoredCertificate | None:
        try:
            content = self._disk.read(self._path(name), FILE_BYTES_MAX)
        except HoldfastError:  # a device, a directory or too long: not ours, so the certificate is issued again
            return None
        whole = None if content is None else _WHOLE.fullmatch(content)
        return None if whole is None else StoredCertificate(whole["chain"], whole["private"])

    def keep(self, name: str, kept: StoredCertificate) -> None:
        content = _ended(kept.chain) + _ended(kept.private)
        if len(content) > FILE_BYTES_MAX or _WHOLE.fullmatch(content) is None:
            raise Corrupt(
                f"the certificate for {name} is not a PEM chain with a private key",
                remedy="configure the authority to return PEM: leaf first, then intermediates",
                code="certificate_unreadable",
            )
        self._disk.make_directory(self._directory, 0o700)
        self._disk.replace(self._path(name), content, 0o600)

    def drop(self, name: str) -> None:
        try:
            os.unlink(self._path(name))
        except FileNotFoundError:
            return
        except OSError as trouble:
            raise _trouble(self._path(name), trouble) from trouble

    def _path(self, name: str) -> str:
        """A hostname contains no slash and is not a dot, so the path stays inside the directory."""
        return os.path.join(self._directory, checked_name(name))


def _ended(text: bytes) -> bytes:
    return text.strip() + b"\n"


def _trouble(path: str, trouble: OSError) -> Failed:
    return Failed(
        f"cannot use {path}: {trouble.strerror or trouble}",
        remedy="check the agent's state directory (df, mount, `ls -l`), then: holdfast sync",
        code="disk_failed",
    )
