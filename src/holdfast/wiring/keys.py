"""Keys: the operator's, the hub's own, and those that seal secrets."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.model.ssh_key import PublicKey
    from holdfast.ports.sealing import Opener, Sealer
    from holdfast.ports.signer import Signer
    from holdfast.wiring.cli import SystemToolbox

HUB_KEY_FILE = "hub.key"


class SystemKeys:
    def __init__(self, box: "SystemToolbox") -> None:
        self._box = box
        self._signer: Signer | None = None  # asks for its passphrase once

    # ---- the operator's

    def signer(self, key: str | None, known: Callable[[bytes], bool]) -> "Signer":
        if self._signer is None:
            from holdfast.cli import key_search

            self._signer = key_search.signer(key, known, OperatorKeys(self._box))
        return self._signer

    def public_line(self, key: str | None) -> str | None:
        from holdfast.cli import key_search

        return key_search.public_line(key, OperatorKeys(self._box))

    def make(self, path: str, comment: str, passphrase: str) -> str:
        from holdfast.adapters.signer import keyfile

        return keyfile.make(path, comment, passphrase, self._box.disk)

    def one_time(self) -> tuple[str, bytes]:
        from holdfast.adapters.identity_key.memory import MemoryIdentityKey

        seed = self._box.random.token(32)
        return MemoryIdentityKey(seed).line, seed

    def random_hex(self, size_bytes: int) -> str:
        return self._box.random.token(size_bytes).hex()

    # ---- the hub's

    def hub(self, state_dir: str) -> str:
        from holdfast.adapters.identity_key import file

        return file.load_or_make(os.path.join(state_dir, HUB_KEY_FILE), self._box.disk, self._box.random).line

    def known_hub(self, state_dir: str) -> str | None:
        from holdfast.adapters.identity_key import file

        key = file.load(os.path.join(state_dir, HUB_KEY_FILE))
        return key.line if key is not None else None

    def name_hub(self, state_dir: str, names: Sequence[str]) -> None:
        if names:
            from holdfast.wiring import hub_identity

            box = self._box
            _, private = hub_identity.identity(os.path.join(state_dir, HUB_KEY_FILE), box.disk, box.random)
            hub_identity.tls(private, state_dir, names, box.clock, box.disk)

    # ---- of secrets

    def recipient(self, path: str) -> str:
        from holdfast.adapters.identity import age

        return age.recipient(path, self._box.disk)

    def sealer(self) -> "Sealer":
        from holdfast.adapters.sealing.age import AgeSealer

        return AgeSealer()

    def opener(self, path: str) -> "Opener":
        from holdfast.adapters.identity.age import FILE_BYTES_MAX
        from holdfast.adapters.sealing import age

        return age.from_identity_file(self._box.disk.read(path, FILE_BYTES_MAX) or b"", path)


class OperatorKeys:
    """The products that hold an operator's key: files, ssh-agent, and ssh-keygen for a security key."""

    def __init__(self, box: "SystemToolbox") -> None:
        self._box = box

    @property
    def usual(self) -> str:
        return os.path.join(self._box.environ.get("HOME", "/root"), ".ssh", "id_ed25519")

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def public_half(self, path: str) -> "PublicKey":
        from holdfast.adapters.signer.keyfile import public_half

        return public_half(path)

    def file(self, path: str) -> "Signer":
        from holdfast.adapters.signer.keyfile import KeyfileSigner

        return KeyfileSigner(path, self._box.terminal.secret)

    def security_key(self, path: str) -> "Signer":
        from holdfast.adapters.signer.ssh_keygen import SshKeygenSigner

        return SshKeygenSigner(path)

    def agent(self, known: Callable[[bytes], bool]) -> "Signer | None":
        socket_path = self._box.environ.get("SSH_AUTH_SOCK")
        if not socket_path or not os.path.exists(socket_path):
            return None
        from holdfast.adapters.signer.ssh_agent import AgentSigner, identities

        found = next((key for key in identities(socket_path) if known(key.blob)), None)
        return AgentSigner(socket_path, found) if found is not None else None

    def warn(self, message: str) -> None:
        self._box.terminal.warn(message)
