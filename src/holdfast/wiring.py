"""The one composition root: chooses products and nothing else. Everything is imported when first needed."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if "typing_extensions" not in sys.modules:
    # msgspec would import it for two names that `typing` has too, at a third of the CLI's whole start-up (ADR 0003).
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    import msgspec

    del sys.modules["typing_extensions"]

from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.entropy.system import SystemEntropy
from holdfast.cli.terminal import Terminal, system_terminal, unsaid
from holdfast.errors import HoldfastError, Invalid

if TYPE_CHECKING:
    from holdfast.adapters.ledger_store.sqlite import SqliteReader
    from holdfast.ports.clock import Clock
    from holdfast.ports.disk import Disk
    from holdfast.ports.entropy import Entropy
    from holdfast.ports.fleet_directory import FleetDirectory
    from holdfast.ports.high_water import HighWater
    from holdfast.ports.hub_link import HubLink, HubReader
    from holdfast.ports.ledger_store import LedgerReader, LedgerStore
    from holdfast.ports.registry import Registry
    from holdfast.ports.signer import Signer

LEDGER_FILE = "ledger.db"
HIGH_WATER_FILE = "high-water"


def command_line(argv: Sequence[str]) -> int:
    box = SystemToolbox(system_terminal(no_colour="NO_COLOR" in os.environ), os.environ)
    try:
        return _command(argv, box)
    finally:
        box.close()


def _command(argv: Sequence[str], box: "SystemToolbox") -> int:
    from holdfast.cli import frame

    try:
        code = frame.run(argv, box)
    except BrokenPipeError:  # `holdfast history | head`: the reader had enough
        code = 141
    try:
        sys.stdout.flush()
    except OSError as trouble:
        # What could not be written must not be tried again, and fail again, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(trouble, BrokenPipeError):
            return 141
        if code == 0:
            frame.report(unsaid(trouble), box.terminal, "--json" in argv)
        return code or 1
    return code


def is_url(target: str) -> bool:
    """A hub is reached by URL, a ledger is a directory; what is neither is said at once."""
    if target.startswith(("http://", "https://")):
        return True
    if "://" in target or os.path.isfile(target):
        raise Invalid(
            f"{target} is neither a hub's URL nor a ledger directory",
            remedy="write --hub https://HOST:9555, --hub http://127.0.0.1:9555 or --hub DIRECTORY",
        )
    return False


class SystemToolbox:
    """The real world, as far as the command line needs it."""

    def __init__(self, terminal: Terminal, environ: Mapping[str, str]) -> None:
        self.terminal = terminal
        self.environ = environ
        self.disk: Disk = PosixDisk()
        self.clock: Clock = SystemClock()
        self.entropy: Entropy = SystemEntropy()
        self._signer: Signer | None = None
        self._readers: list[SqliteReader] = []  # put to rest before somebody writes
        self._endings: list[Callable[[], None]] = []  # one for each thing that was opened

    def close(self) -> None:
        """Never fails: by now the command has its result, and what it committed is on the disk."""
        while self._endings:
            with suppress(Exception, KeyboardInterrupt):
                self._endings.pop()()

    # ---- fleet directory, registry

    def fleet_directory(self, path: str) -> "FleetDirectory":
        from holdfast.adapters.fleet_directory.posix import PosixFleetDirectory

        return PosixFleetDirectory(path)

    def registry(self) -> "Registry":
        from holdfast.adapters.registry.oci import OciRegistry

        return OciRegistry()

    # ---- hub

    def hub(self, target: str) -> "HubReader | None":
        if is_url(target):
            return self._http(target)
        if not os.path.lexists(os.path.join(target, LEDGER_FILE)):
            return None
        from holdfast.hub import reading
        from holdfast.hub.mailbox import ReadingMailbox

        store = self.store_for_reading(target)
        return ReadingMailbox(store, self.clock, reading.load(store))

    def hub_for_writing(self, target: str) -> "HubLink":
        if is_url(target):
            return self._http(target)
        from holdfast.hub import reading
        from holdfast.hub.mailbox import Mailbox

        store = self.store(target, create=True)
        return Mailbox(store, self.clock, self.entropy, self.high_water(target), reading.load(store))

    def _http(self, url: str) -> "HubLink":
        from holdfast.adapters.hub_link.http import HttpHub

        hub = HttpHub(url)
        self._endings.append(hub.close)
        return hub

    def store(self, state_dir: str, create: bool) -> "LedgerStore":
        from holdfast.adapters.ledger_store.sqlite import SqliteStore

        for reader in self._readers:
            reader.rest()
        store = SqliteStore.open(os.path.join(state_dir, LEDGER_FILE), self.clock, create)
        self._endings.append(store.leave)
        return store

    def store_for_reading(self, state_dir: str) -> "LedgerReader":
        from holdfast.adapters.ledger_store.sqlite import SqliteStore

        reader = SqliteStore.open_read_only(os.path.join(state_dir, LEDGER_FILE))
        self._readers.append(reader)
        self._endings.append(reader.close)
        return reader

    def high_water(self, state_dir: str) -> "HighWater":
        from holdfast.adapters.high_water.file import FileHighWater

        return FileHighWater(os.path.join(state_dir, HIGH_WATER_FILE), self.disk)

    def booted_hub(self, state_dir: str, strict: bool) -> "HubLink":
        """Verified read-only first; the ledger is opened for writing only once it is fit to be served."""
        from holdfast.hub.boot import boot
        from holdfast.hub.mailbox import Mailbox
        from holdfast.ledger.readiness import as_refusal

        try:
            reader = self.store_for_reading(state_dir)
        except HoldfastError as trouble:
            raise as_refusal(trouble) from trouble
        try:
            booted = boot(reader, self.high_water(state_dir), strict)
        finally:
            reader.close()
        store = self.store(state_dir, create=False)
        marks = self.high_water(state_dir)
        return Mailbox(store, self.clock, self.entropy, marks, booted.loaded, booted.findings)

    def legacy_hub(self, config: str) -> "HubLink":
        from holdfast.declared.load import load
        from holdfast.hub.legacy import LegacySource, directory_of

        return LegacySource(load(self.fleet_directory(directory_of(config))))

    def serve(self, hub: "HubLink", host: str, port: int, ready: Callable[[int], None]) -> None:
        import gc

        from holdfast.hub.daemon import serve

        gc.freeze()  # what is loaded by now stays until the end
        gc.enable()  # off in commands (ADR 0003), but a hub goes on
        serve(hub, host, port, ready, self.terminal.remark)

    # ---- keys

    def signer(self, key: str | None, known: Callable[[bytes], bool]) -> "Signer":
        if self._signer is None:
            self._signer = (
                self._key_file(key) if key else self._from_agent(known) or self._key_file(self._default_key())
            )
        return self._signer

    def public_line(self, key: str | None) -> str | None:
        from holdfast.model.ssh_key import line

        if key is None:
            agent = self._from_agent(lambda blob: True)
            if agent is not None:
                return line(agent.public_key)
        path = key or self._default_key()
        if not os.path.exists(path) and not os.path.exists(path + ".pub"):
            return None
        from holdfast.adapters.signer.keyfile import public_half

        return line(public_half(path))

    def _default_key(self) -> str:
        return os.path.join(self.environ.get("HOME", "/root"), ".ssh", "id_ed25519")

    def _key_file(self, path: str) -> "Signer":
        from holdfast.adapters.signer.keyfile import KeyfileSigner, public_half

        if not os.path.exists(path) and not os.path.exists(path + ".pub"):
            raise Invalid(
                f"there is no key at {path}, and ssh-agent has none of an operator",
                remedy="name your key with --key FILE, or load it: ssh-add FILE",
                code="no_key",
            )
        public = public_half(path)
        if public.type.startswith("sk-"):
            from holdfast.adapters.signer.ssh_keygen import SshKeygenSigner

            return SshKeygenSigner(path)
        if not os.path.exists(path):  # only the public half is here: the agent may hold the rest
            from_agent = self._from_agent(lambda blob: blob == public.blob)
            if from_agent is not None:
                return from_agent
        return KeyfileSigner(path, self.terminal.secret)

    def _from_agent(self, known: Callable[[bytes], bool]) -> "Signer | None":
        socket_path = self.environ.get("SSH_AUTH_SOCK")
        if not socket_path or not os.path.exists(socket_path):
            return None
        from holdfast.adapters.signer.ssh_agent import AgentSigner, identities

        try:
            found = next((key for key in identities(socket_path) if known(key.blob)), None)
        except HoldfastError as trouble:
            self.terminal.warn(f"ssh-agent gave no key: {trouble.message}")
            return None
        return AgentSigner(socket_path, found) if found is not None else None

    def random_hex(self, size_bytes: int) -> str:
        return self.entropy.token(size_bytes).hex()

    def make_key(self, path: str, comment: str, passphrase: str) -> str:
        from holdfast.adapters.signer import keyfile

        return keyfile.make(path, comment, passphrase, self.disk)

    def make_recipient(self, path: str) -> str:
        from holdfast.adapters.identity import age

        return age.recipient(path, self.disk)


__all__ = ["SystemToolbox", "command_line", "msgspec"]
