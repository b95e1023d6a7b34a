"""The composition of the command line: chooses products. Everything is imported when first needed."""

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
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.cli.terminal import Terminal, system_terminal, unsaid
from holdfast.cli.tools import Caller
from holdfast.errors import HoldfastError, Invalid

if TYPE_CHECKING:
    from holdfast.adapters.hub_link.http import HttpHub
    from holdfast.adapters.ledger_store.sqlite import SqliteReader
    from holdfast.cli.tools import Serving
    from holdfast.model.certificate import CertificateFacts
    from holdfast.ports.clock import Clock
    from holdfast.ports.disk import Disk
    from holdfast.ports.fleet_directory import FleetDirectory
    from holdfast.ports.high_water import HighWater
    from holdfast.ports.hub_link import HubLink, HubReader, TokenDesk
    from holdfast.ports.lab import Lab
    from holdfast.ports.ledger_store import LedgerReader, LedgerStore
    from holdfast.ports.random_source import RandomSource
    from holdfast.ports.registry import Registry
    from holdfast.ports.sealing import Opener, Sealer
    from holdfast.ports.signer import Signer
    from holdfast.ports.stream_link import CallerStreams
    from holdfast.wiring.agent import SystemAgent

LEDGER_FILE = "ledger.db"
HIGH_WATER_FILE = "high-water"
HUB_KEY_FILE = "hub.key"
HUB_LOCK_FILE = "hub.lock"


def command_line(argv: Sequence[str]) -> int:
    box = SystemToolbox(system_terminal(no_colour="NO_COLOR" in os.environ), os.environ)
    try:
        return _command(argv, box)
    finally:
        box.close()


def _command(argv: Sequence[str], box: "SystemToolbox") -> int:
    from holdfast.cli import main

    try:
        code = main.run(argv, box)
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
            main.report(unsaid(trouble), box.terminal, "--json" in argv)
        return code or 1
    return code


def is_url(target: str) -> bool:
    """A hub is reached by URL, a ledger is a directory; anything else is an error at once."""
    if target.startswith(("http://", "https://")):
        return True
    if "://" in target or os.path.isfile(target):
        raise Invalid(
            f"{target} is neither a hub's URL nor a ledger directory",
            remedy="write --hub https://HOST:9555 or --hub DIRECTORY",
        )
    return False


class SystemToolbox:
    """The real world, as far as the command line needs it."""

    def __init__(self, terminal: Terminal, environ: Mapping[str, str]) -> None:
        self.terminal = terminal
        self.environ = environ
        self.disk: Disk = PosixDisk()
        self.clock: Clock = SystemClock()
        self.random: RandomSource = SystemRandom()
        self.caller = Caller()
        self._signer: Signer | None = None
        self._far: dict[str, HttpHub] = {}  # one visit per hub, however often a command asks for it
        self._served: LedgerStore | None = None  # the ledger of the hub that this process is
        self._readers: list[SqliteReader] = []  # closed before a writer opens it
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
        from holdfast.hub.ledger import reading
        from holdfast.hub.ledger.revision_reader import RevisionReader

        store = self.store_for_reading(target)
        return RevisionReader(store, self.clock, reading.load(store))

    def hub_for_writing(self, target: str) -> "HubLink":
        if is_url(target):
            return self._http(target)
        from holdfast.hub.ledger import reading
        from holdfast.hub.ledger.revisions import Revisions

        store = self.store(target, create=True)
        return Revisions(store, self.clock, self.random, self.high_water(target), reading.load(store))

    def tokens(self, target: str) -> "TokenDesk":
        if not is_url(target):
            raise Invalid(
                f"{target} is a ledger directory; tokens belong to a running hub",
                remedy="name it: --hub https://HOST:9555",
                code="no_hub",
            )
        return self._http(target)

    def streams(self, target: str) -> "CallerStreams":
        if not is_url(target):
            raise Invalid(
                f"{target} is a ledger directory; streams go through a running hub",
                remedy="name it: --hub https://HOST:9555",
                code="no_hub",
            )
        from holdfast.adapters.stream_link.command import CommandStreams

        return CommandStreams(lambda: self._visiting(target), self.clock)

    def _http(self, url: str) -> "HttpHub":
        if url not in self._far:
            hub = self._far[url] = self._visiting(url)
            self._endings.append(hub.close)
        return self._far[url]

    def _visiting(self, url: str) -> "HttpHub":
        from holdfast.adapters.hub_link.http import HttpHub
        from holdfast.adapters.sessions.file import FileSessions
        from holdfast.cli import hub_identity

        known = hub_identity.of(self.caller.fleet_dir, self.disk, self.environ)
        sessions = FileSessions(
            os.path.join(hub_identity.state_dir(self.environ), "sessions"),
            self.disk,
            self.clock,
            self.random,
            lambda: self.signer(self.caller.key, known.knows),
        )
        return HttpHub(url, sessions, self.clock, self.random, pin=known.pin, fleet=known.fleet)

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
        from holdfast.adapters.machine.lock import DirectoryLock
        from holdfast.hub.ledger.boot import boot
        from holdfast.hub.ledger.revisions import Revisions
        from holdfast.ledger.boot_findings import as_refusal

        try:
            reader = self.store_for_reading(state_dir)
        except HoldfastError as trouble:
            raise as_refusal(trouble) from trouble
        try:
            booted = boot(reader, self.high_water(state_dir), strict)
        finally:
            reader.close()
        # Not the ledger's lock, which an `apply` may hold: two hubs would each write the one audit log. Only now,
        # because a boot that is refused leaves the state directory as it is.
        self._endings.append(DirectoryLock(state_dir, "hub", HUB_LOCK_FILE).release)
        store = self.store(state_dir, create=False)
        self._served = store
        marks = self.high_water(state_dir)
        return Revisions(store, self.clock, self.random, marks, booted.loaded, booted.findings)

    def legacy_hub(self, config: str) -> "HubLink":
        from holdfast.declared.load import load
        from holdfast.hub.ledger.legacy import LegacySource, directory_of

        return LegacySource(load(self.fleet_directory(directory_of(config))))

    def hub_key(self, state_dir: str) -> str:
        from holdfast.adapters.identity_key import file

        return file.load_or_make(os.path.join(state_dir, HUB_KEY_FILE), self.disk, self.random).line

    def known_hub_key(self, state_dir: str) -> str | None:
        from holdfast.adapters.identity_key import file

        key = file.load(os.path.join(state_dir, HUB_KEY_FILE))
        return key.line if key is not None else None

    def hub_names(self, state_dir: str, names: Sequence[str]) -> None:
        if names:
            from holdfast.wiring import hub_identity

            _, private = hub_identity.identity(os.path.join(state_dir, HUB_KEY_FILE), self.disk, self.random)
            hub_identity.tls(private, state_dir, names, self.clock, self.disk)

    def serve(self, hub: "HubLink", serving: "Serving", ready: Callable[[int, str], None]) -> None:
        import gc

        from holdfast.wiring.hub import HubParts
        from holdfast.wiring.hub_http import daemon

        building = HubParts(
            disk=self.disk, clock=self.clock, random=self.random, served=self._served, ends_with=self.ends_with
        )
        parts = building.build(hub, serving)
        process = daemon(parts, serving.host, serving.port)
        gc.freeze()  # what is loaded by now stays until the end
        gc.enable()  # off in commands (ADR 0003), but a hub goes on
        process.run(lambda port: ready(port, parts.key.line))

    def certificate_facts(self, der: bytes) -> "CertificateFacts":
        from holdfast.adapters.certificates import x509

        return x509.facts(der)

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
                remedy="give your key with --key FILE, or load it: ssh-add FILE",
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

    def agent(self, state_dir: str) -> "SystemAgent":
        from holdfast.wiring.agent import SystemAgent

        return SystemAgent(state_dir, self)

    def ends_with(self, ending: Callable[[], None]) -> None:
        self._endings.append(ending)

    def random_hex(self, size_bytes: int) -> str:
        return self.random.token(size_bytes).hex()

    def one_time_key(self) -> tuple[str, bytes]:
        from holdfast.adapters.identity_key.memory import MemoryIdentityKey

        seed = self.random.token(32)
        return MemoryIdentityKey(seed).line, seed

    def make_key(self, path: str, comment: str, passphrase: str) -> str:
        from holdfast.adapters.signer import keyfile

        return keyfile.make(path, comment, passphrase, self.disk)

    def make_recipient(self, path: str) -> str:
        from holdfast.adapters.identity import age

        return age.recipient(path, self.disk)

    def sealer(self) -> "Sealer":
        from holdfast.adapters.sealing.age import AgeSealer

        return AgeSealer()

    def opener(self, path: str) -> "Opener":
        from holdfast.adapters.identity.age import FILE_BYTES_MAX
        from holdfast.adapters.sealing import age

        return age.from_identity_file(self.disk.read(path, FILE_BYTES_MAX) or b"", path)

    # ---- lab

    def lab(self, directory: str) -> "Lab":
        from holdfast.lab.laboratory import Laboratory

        return Laboratory(directory, self.terminal.remark)


__all__ = ["SystemToolbox", "command_line", "msgspec"]
