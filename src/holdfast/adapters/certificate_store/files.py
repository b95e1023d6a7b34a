"""One file per name in one directory: the chain, then the key, so that a file cut anywhere lacks the end of its key."""

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
        """A name that does not begin as a hostname does is not ours: half-written files begin with a dot."""
        try:
            return tuple(sorted(name for name in os.listdir(self._directory) if name[:1].isalnum()))
        except FileNotFoundError:
            return ()
        except OSError as trouble:
            raise _trouble(self._directory, trouble) from trouble

    def kept(self, name: str) -> StoredCertificate | None:
        try:
            content = self._disk.read(self._path(name), FILE_BYTES_MAX)
        except HoldfastError:  # a device, a directory, far too long: nothing that was kept here, and made anew
            return None
        whole = None if content is None else _WHOLE.fullmatch(content)
        return None if whole is None else StoredCertificate(whole["chain"], whole["private"])

    def keep(self, name: str, kept: StoredCertificate) -> None:
        content = _ended(kept.chain) + _ended(kept.private)
        if len(content) > FILE_BYTES_MAX or _WHOLE.fullmatch(content) is None:
            raise Corrupt(
                f"what should be kept for {name} is not a chain of certificates and a key",
                remedy="ask the authority for PEM: leaf, intermediates",
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
        """A hostname has no slash and is no dot, so no name leads out of the directory."""
        return os.path.join(self._directory, checked_name(name))


def _ended(text: bytes) -> bytes:
    return text.strip() + b"\n"


def _trouble(path: str, trouble: OSError) -> Failed:
    return Failed(
        f"{path} cannot be used: {trouble.strerror or trouble}",
        remedy="look after the agent's state directory (df, mount, ls -l), then holdfast sync",
        code="disk_failed",
    )
