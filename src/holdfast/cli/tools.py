"""What commands may use of the world, handed to them by wiring. Names no product."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from holdfast.cli.terminal import Terminal
from holdfast.ports.clock import Clock
from holdfast.ports.disk import Disk
from holdfast.ports.fleet_directory import FleetDirectory
from holdfast.ports.high_water import HighWater
from holdfast.ports.hub_link import HubLink, HubReader, TokenDesk
from holdfast.ports.lab import Lab
from holdfast.ports.ledger_store import LedgerReader, LedgerStore
from holdfast.ports.registry import Registry
from holdfast.ports.signer import Signer
from holdfast.ports.stream_link import CallerStreams

if TYPE_CHECKING:  # the agent's room is for those who enter it
    from holdfast.cli.agent_home import AgentHome
    from holdfast.model.certificate import CertificateFacts
    from holdfast.ports.sealing import Opener, Sealer


class Caller(Struct, frozen=True):
    """Who runs this command, as far as a hub has to know: `fleet_dir` says whom it trusts, `key` names a key file."""

    fleet_dir: str = "."
    key: str | None = None


class Serving(Struct, frozen=True):
    """How a hub is run: facts of the process, never of the fleet. `state_dir` None: the legacy source has none."""

    host: str
    port: int
    state_dir: str | None = None
    names: tuple[str, ...] = ()  # the certificate carries them too
    fast: bool = False
    alert_command: str = ""
    key_file: str | None = None  # elsewhere than in the state directory


class Toolbox(Protocol):
    terminal: Terminal
    caller: Caller
    environ: Mapping[str, str]
    disk: Disk
    clock: Clock

    def fleet_directory(self, path: str) -> FleetDirectory: ...

    def hub(self, target: str) -> HubReader | None:
        """For reading. None: that ledger directory does not exist yet."""
        ...

    def hub_for_writing(self, target: str) -> HubLink:
        """An offline ledger is created if it is missing."""
        ...

    def tokens(self, target: str) -> TokenDesk:
        """Of a running hub; a ledger directory has none."""
        ...

    def streams(self, target: str) -> CallerStreams:
        """Through a running hub; a ledger directory relays nothing."""
        ...

    def store(self, state_dir: str, create: bool) -> LedgerStore: ...

    def store_for_reading(self, state_dir: str) -> LedgerReader: ...

    def high_water(self, state_dir: str) -> HighWater: ...

    def registry(self) -> Registry: ...

    def signer(self, key: str | None, known: Callable[[bytes], bool]) -> Signer:
        """The operator's key: `key` is a file, None means ssh-agent, then ~/.ssh/id_ed25519. `known` tells by blob."""
        ...

    def public_line(self, key: str | None) -> str | None:
        """The public half of the operator's key as one line; None if there is no key to be found."""
        ...

    def booted_hub(self, state_dir: str, strict: bool) -> HubLink:
        """A mailbox over that ledger, after every row of the boot table was looked at."""
        ...

    def legacy_hub(self, config: str) -> HubLink:
        """The legacy source: a hand-written fleet directory, named by its fleet.toml; no ledger is opened."""
        ...

    def hub_key(self, state_dir: str) -> str:
        """The public line of the hub's own key, which is made if it is missing."""
        ...

    def known_hub_key(self, state_dir: str) -> str | None:
        """The same without making anything: None if there is no key yet."""
        ...

    def hub_names(self, state_dir: str, names: Sequence[str]) -> None:
        """Names that the hub's certificate carries from now on, besides the addresses it listens on."""
        ...

    def serve(self, hub: HubLink, serving: Serving, ready: Callable[[int, str], None]) -> None:
        """Listen until told to stop. Called only after the boot succeeded; `ready` hears port and hub key."""
        ...

    def random_hex(self, size_bytes: int) -> str: ...

    def one_time_key(self) -> tuple[str, bytes]:
        """A fresh ed25519 key that is kept nowhere: its public line and its 32 private bytes."""
        ...

    def make_key(self, path: str, comment: str, passphrase: str) -> str:
        """A fresh ed25519 key pair in OpenSSH form, locked unless `passphrase` is empty; returns the public line."""
        ...

    def make_recipient(self, path: str) -> str:
        """The recipient of the age identity in that file, which is made if it is missing."""
        ...

    def sealer(self) -> "Sealer": ...

    def opener(self, path: str) -> "Opener":
        """Opens what is sealed to the age identity in that file; Invalid if there is none."""
        ...

    def certificate_facts(self, der: bytes) -> "CertificateFacts":
        """What a certificate says; Corrupt if it is none."""
        ...

    def lab(self, directory: str) -> Lab:
        """The lab in that directory, whether or not it was made yet."""
        ...

    def agent(self, state_dir: str) -> "AgentHome":
        """The agent whose state lies there, whether or not it was made yet."""
        ...
