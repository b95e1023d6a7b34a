"""Seal with age (pyrage): X25519 for people, ssh-ed25519 for nodes. Keys exist only inside the library."""

from collections.abc import Sequence
from typing import IO

from holdfast.errors import Corrupt, Invalid
from holdfast.ports.sealing import CannotOpen, Opener


class AgeSealer:
    def seal(self, value: bytes, recipients: Sequence[str]) -> bytes:
        import pyrage

        return bytes(pyrage.encrypt(value, _recipients(recipients)))

    def seal_stream(self, source: IO[bytes], into: IO[bytes], recipients: Sequence[str]) -> None:
        import pyrage

        written = _Written(into)
        try:
            pyrage.encrypt_io(source, written, _recipients(recipients))
        except pyrage.EncryptError as trouble:
            raise written.trouble or trouble from None


class _Written:
    """Keeps the error of a full disk, which the library turns into text."""

    def __init__(self, into: IO[bytes]) -> None:
        self._into = into
        self.flush = into.flush
        self.trouble: OSError | None = None

    def write(self, content: bytes) -> int:
        try:
            return self._into.write(content)
        except OSError as trouble:
            self.trouble = trouble
            raise


def _recipients(lines: Sequence[str]) -> list[object]:
    if not lines:
        raise Invalid("a value needs a recipient to be sealed to", remedy="give at least one recipient")
    return [_recipient(line) for line in lines]


def _recipient(line: str) -> object:
    import pyrage

    kind = pyrage.ssh.Recipient if line.startswith("ssh-") else pyrage.x25519.Recipient
    try:
        return kind.from_str(line)
    except (pyrage.RecipientError, ValueError):
        raise Invalid(
            f"{line[:80]!r} is not a valid age recipient",
            remedy="an operator has age1… in fleet.toml (recipient); a node has an ssh-ed25519 key",
            code="recipient_invalid",
        ) from None


class AgeOpener:
    def __init__(self, identity: object) -> None:
        """Use `from_ssh_key` or `from_identity_file`."""
        self._identity = identity

    def open(self, sealed: bytes) -> bytes:
        import pyrage

        try:
            return bytes(pyrage.decrypt(sealed, [self._identity]))
        except (pyrage.DecryptError, ValueError):
            raise CannotOpen from None

    def open_stream(self, sealed: IO[bytes], into: IO[bytes]) -> None:
        import pyrage

        try:
            pyrage.decrypt_io(sealed, into, [self._identity])
        except (pyrage.DecryptError, ValueError):
            raise CannotOpen from None
        except OSError as trouble:
            if trouble.errno is not None:  # of the disk; a damaged piece has none
                raise
            raise CannotOpen from None

    def __repr__(self) -> str:  # never the key, so that no traceback or log shows it
        return "AgeOpener()"


def from_ssh_key(content: bytes, path: str) -> Opener:
    """From a machine's own key, the content of its OpenSSH file."""
    import pyrage

    try:
        return AgeOpener(pyrage.ssh.Identity.from_buffer(content))
    except (pyrage.IdentityError, ValueError):
        raise Corrupt(
            f"{path} is not a valid machine key, so it cannot open secrets",
            remedy=f"restore {path} from a backup of this machine; or join the machine again",
            code="key_damaged",
        ) from None


def from_identity_file(content: bytes, path: str) -> Opener:
    """From a person's age identity, in the file that `init` or age-keygen wrote."""
    import pyrage

    lines = [line.strip() for line in content.decode("utf-8", "replace").splitlines()]
    secret = next((line for line in lines if line and not line.startswith("#")), "")
    try:
        return AgeOpener(pyrage.x25519.Identity.from_str(secret))
    except (pyrage.IdentityError, ValueError):
        raise Invalid(
            f"{path} contains no age identity",
            remedy="give the file that contains yours: --identity FILE (init and age-keygen create one)",
            code="identity_damaged",
        ) from None
