"""What the agent verbs may use of one state directory and the machine around it, handed to them by wiring."""

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
    """How an agent is run: facts of the process. `role` is asserted, "" asserts nothing; no `host`: the
    accepted revision decides whether it listens."""

    data_dir: str
    run_dir: str
    host: str = ""
    port: int = 0
    role: str = ""
    podman_socket: str = ""  # of a service somebody else keeps; "" starts one
    registry_auth: tuple[str, ...] = ()  # docker-style files with credentials of registries


class AgentHome(Protocol):
    def key(self, host_key: str | None) -> IdentityKey:
        """The node's own key, made if it is missing; from that SSH host key, if one is named."""
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
        """Until told to stop."""
        ...
