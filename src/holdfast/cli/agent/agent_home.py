"""What the agent verbs use of one state directory and its machine; wiring provides it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from holdfast.agent.membership import Membership
from holdfast.model.audit import AuditHead
from holdfast.ports.acceptance import Acceptance
from holdfast.ports.fleet_link import FleetLink
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.journal import Journal


class Running(Struct, frozen=True):
    """How an agent is run: facts of the process. `role` is checked, "" checks nothing; without `host` the
    accepted revision decides whether it listens."""

    data_dir: str
    run_dir: str
    host: str = ""
    port: int = 0
    role: str = ""
    podman_socket: str = ""  # of a podman service started elsewhere; "" starts one
    registry_auth: tuple[str, ...] = ()  # docker-style files with credentials of registries
    alert_networks: tuple[str, ...] = ()  # alerts may go there, although it is loopback, link-local or the overlay


class AgentHome(Protocol):
    def key(self, host_key: str | None) -> IdentityKey:
        """The node's own key, created if it is missing; from `host_key`, an SSH host key, if that is given."""
        ...

    def existing_key(self) -> IdentityKey | None: ...

    def once(self, seed: bytes) -> IdentityKey:
        """The one-time key of a token."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """Conflict while an agent runs with this directory."""
        ...

    def link(self, member: Membership, key: IdentityKey) -> FleetLink: ...

    def arch(self) -> str: ...

    def stores(self) -> tuple[Journal, Acceptance] | None:
        """None before the agent ran for the first time."""
        ...

    def verified_audit(self) -> AuditHead:
        """Raises Corrupt where the log is broken."""
        ...

    def audit_lines(self, newest: int) -> Sequence[bytes]: ...

    def run(self, member: Membership, running: Running) -> int:
        """Runs until it gets a signal."""
        ...
