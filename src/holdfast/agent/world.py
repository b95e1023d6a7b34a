"""What an agent uses of the world, handed to it by wiring: ports, and two small callbacks. Names no product."""

from collections.abc import Callable, Collection
from typing import Protocol

from msgspec import Struct

from holdfast.model.container import Mount, SecretUse
from holdfast.model.fleet import Node, Settings
from holdfast.ports.acceptance import Acceptance
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.certificate_store import CertificateStore
from holdfast.ports.certificates import Certificates
from holdfast.ports.clock import Clock
from holdfast.ports.fleet_link import FleetLink
from holdfast.ports.handshake import Handshake
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.journal import Journal
from holdfast.ports.machine import Machine
from holdfast.ports.name_server import NameServer, Resolver
from holdfast.ports.prober import Prober
from holdfast.ports.proxy import Proxy
from holdfast.ports.public_authority import PublicAuthority
from holdfast.ports.random_source import RandomSource
from holdfast.ports.runtime import Runtime
from holdfast.ports.storage import Storage


class Renewer(Protocol):
    """Whoever keeps the certificates of this node."""

    def follow(self, node: Node, settings: Settings) -> None:
        """A revision was accepted, or the agent started with one."""
        ...

    async def renew(self) -> str:
        """Issue the serving certificate anew; answers what was done, in a sentence."""
        ...

    def shown(self) -> tuple[bytes, str]:
        """DER of the issuing certificate and the digest of the serving one; empty where there is none."""
        ...


Prepared = tuple[tuple[Mount, ...], tuple[tuple[str, bytes], ...]]


class SecretDelivery(Protocol):
    """Whoever opens secrets with this node's own key, for one container at a time."""

    def prepare(
        self, name: str, uses: tuple[SecretUse, ...]
    ) -> tuple[tuple[Mount, ...], tuple[tuple[str, bytes], ...]]:
        """Files to mount, and variables with their content. Again after a reboot: files do not survive one."""
        ...

    def forget(self, name: str) -> None:
        """The container is gone."""
        ...

    def forget_all_but(self, names: Collection[str]) -> None:
        """After a start: others went while nobody looked."""
        ...


Say = Callable[[str, dict[str, object]], None]


class World(Struct, frozen=True):
    link: FleetLink
    journal: Journal
    acceptance: Acceptance
    storage: Storage
    audit: AuditLog
    machine: Machine
    key: IdentityKey
    clock: Clock
    random: RandomSource
    certificates: Renewer
    runtime: Runtime
    proxy: Proxy
    prober: Prober
    secrets: SecretDelivery
    issuer: Certificates
    shelf: CertificateStore
    authority: PublicAuthority
    handshake: Handshake
    name_server: NameServer
    resolver: Resolver
    data_dir: str
    say: Say  # one event of the log: its name and its fields
