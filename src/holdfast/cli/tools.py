"""What commands may use outside their own code; wiring provides it. Names no product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:  # protocols: loading them would cost every command 3 ms
    from holdfast.cli.agent.agent_home import AgentHome
    from holdfast.cli.file_tools import Files
    from holdfast.cli.terminal import Terminal
    from holdfast.ports.clock import Clock
    from holdfast.ports.disk import Disk
    from holdfast.ports.high_water import HighWater
    from holdfast.ports.hub_link import HubLink, HubReader, TokenDesk
    from holdfast.ports.lab import Lab
    from holdfast.ports.ledger_store import LedgerReader, LedgerStore
    from holdfast.ports.sealing import Opener, Sealer
    from holdfast.ports.signer import Signer
    from holdfast.ports.stream_link import CallerStreams


class Caller(Struct, frozen=True):
    """Who runs this command, for requests to a hub: `fleet_dir` names the trusted keys, `key` is a key file."""

    fleet_dir: str = "."
    key: str | None = None


class Serving(Struct, frozen=True):
    """How a hub is run: facts of the process, not of the fleet. `state_dir` None: the legacy source has none."""

    host: str
    port: int
    state_dir: str | None = None
    names: tuple[str, ...] = ()  # additional names in the certificate
    fast: bool = False
    alert_command: str = ""
    key_file: str | None = None  # elsewhere than in the state directory
    alert_networks: tuple[str, ...] = ()  # alerts may go there although targets.py refuses them


class Hubs(Protocol):
    """Hubs by target: a URL, or a ledger directory."""

    def reader(self, target: str) -> HubReader | None:
        """None: that ledger directory does not exist yet."""
        ...

    def writer(self, target: str) -> HubLink:
        """An offline ledger is created if it is missing."""
        ...

    def tokens(self, target: str) -> TokenDesk:
        """Of a running hub; a ledger directory has none."""
        ...

    def streams(self, target: str) -> CallerStreams:
        """Through a running hub; a ledger directory relays nothing."""
        ...

    def serve(self, hub: HubLink, serving: Serving, ready: Callable[[int, str], None]) -> None:
        """Listen until a signal. Called only after a successful boot; `ready` gets the port and the hub key."""
        ...


class Ledgers(Protocol):
    """Ledgers by state directory."""

    def store(self, state_dir: str, create: bool) -> LedgerStore: ...

    def reader(self, state_dir: str) -> LedgerReader: ...

    def high_water(self, state_dir: str) -> HighWater: ...

    def booted(self, state_dir: str, strict: bool) -> HubLink:
        """A hub over that ledger, after every check of the boot table."""
        ...

    def legacy(self, config: str) -> HubLink:
        """The legacy source: a hand-written fleet directory, named by its fleet.toml; no ledger is opened."""
        ...


class Keys(Protocol):
    def signer(self, key: str | None, known: Callable[[bytes], bool]) -> Signer:
        """The operator's key: `key` is a file, None: ssh-agent, then ~/.ssh/id_ed25519. `known` decides by blob."""
        ...

    def public_line(self, key: str | None) -> str | None:
        """The public half of the operator's key as one line; None if no key is found."""
        ...

    def make(self, path: str, comment: str, passphrase: str) -> str:
        """A new ed25519 key pair, in OpenSSH form, encrypted unless `passphrase` is empty. Returns the public line."""
        ...

    def one_time(self) -> tuple[str, bytes]:
        """A new ed25519 key that is not stored: its public line and its 32 private bytes."""
        ...

    def random_hex(self, size_bytes: int) -> str: ...

    def hub(self, state_dir: str) -> str:
        """The public line of the hub's own key, which is created if it is missing."""
        ...

    def known_hub(self, state_dir: str) -> str | None:
        """The same without creating anything: None if there is no key yet."""
        ...

    def name_hub(self, state_dir: str, names: Sequence[str]) -> None:
        """Store names for the hub's certificate, in addition to the addresses it listens on."""
        ...

    def recipient(self, path: str) -> str:
        """The recipient of the age identity in that file, which is created if it is missing."""
        ...

    def sealer(self) -> Sealer: ...

    def opener(self, path: str) -> Opener:
        """Opens what is sealed to the age identity in that file; Invalid if there is none."""
        ...


class Agents(Protocol):
    def at(self, state_dir: str) -> AgentHome:
        """The agent with that state directory, whether or not it exists yet."""
        ...


class Labs(Protocol):
    def at(self, directory: str) -> Lab:
        """The lab in that directory, whether or not it exists yet."""
        ...


class Toolbox(Protocol):
    terminal: Terminal
    caller: Caller
    environ: Mapping[str, str]
    disk: Disk
    clock: Clock

    @property
    def hubs(self) -> Hubs: ...

    @property
    def ledgers(self) -> Ledgers: ...

    @property
    def keys(self) -> Keys: ...

    @property
    def agents(self) -> Agents: ...

    @property
    def labs(self) -> Labs: ...

    @property
    def files(self) -> Files: ...
