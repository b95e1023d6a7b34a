"""What commands may use of the world, handed to them by wiring. Names no product."""

from collections.abc import Callable, Mapping
from typing import Protocol

from holdfast.cli.terminal import Terminal
from holdfast.ports.disk import Disk
from holdfast.ports.fleet_directory import FleetDirectory
from holdfast.ports.high_water import HighWater
from holdfast.ports.hub_link import HubLink, HubReader
from holdfast.ports.ledger_store import LedgerReader, LedgerStore
from holdfast.ports.registry import Registry
from holdfast.ports.signer import Signer


class Toolbox(Protocol):
    terminal: Terminal
    environ: Mapping[str, str]
    disk: Disk

    def fleet_directory(self, path: str) -> FleetDirectory: ...

    def hub(self, target: str) -> HubReader | None:
        """For reading. None: that ledger directory does not exist yet."""
        ...

    def hub_for_writing(self, target: str) -> HubLink:
        """An offline ledger is created if it is missing."""
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

    def serve(self, hub: HubLink, host: str, port: int, ready: Callable[[int], None]) -> None:
        """Listen until told to stop. Called only after the boot succeeded."""
        ...

    def random_hex(self, size_bytes: int) -> str: ...

    def make_key(self, path: str, comment: str, passphrase: str) -> str:
        """A fresh ed25519 key pair in OpenSSH form, locked unless `passphrase` is empty; returns the public line."""
        ...

    def make_recipient(self, path: str) -> str:
        """The recipient of the age identity in that file, which is made if it is missing."""
        ...
