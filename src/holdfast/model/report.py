"""A node's report: a small signed pulse with every heartbeat, a larger report when something changed.

The pulse binds the report by its digest, so one signature covers both. The hub keeps the bytes as received: a field
that a newer agent added stays readable for programs that know it.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.model.deployment import ServiceState, StepResult
from holdfast.model.revision import NO_HEAD, Count, Head

PULSE_NAMESPACE = "holdfast-pulse"
PULSE_RESULTS_MAX = 64


class Facts(Struct, frozen=True, omit_defaults=True):
    """Claimed by the node (D10). Clamp them before use: `clamped`."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    memory_free_bytes: int = 0
    disk_bytes: int = 0
    disk_free_bytes: int = 0
    containers: int | None = None  # how many run; None while they are not counted


class Pulse(Struct, frozen=True, omit_defaults=True):
    """A signed heartbeat; `accepted` makes it the receipt of a revision."""

    fleet: str
    node: str
    sequence: int
    at_s: float  # the node's own clock, held above its time floor
    accepted: Head = NO_HEAD
    manifest: str = ""  # digest of the manifest in force
    report: str = ""  # digest of the newest report
    counter: int = 0  # highest order counter used
    facts: Facts = Facts()
    results: dict[str, str] = {}  # outcome by id of the newest signed orders, oldest first: signed by the node
    release: Annotated[str, Meta(max_length=64)] = ""  # of the agent; "" from agents before this field
    format: Count = 0  # the newest format of revisions that the agent reads; 0 from agents before this field
    life: Annotated[str, Meta(max_length=32)] = ""  # random, for each start of the agent; "" from agents before it


class SignedPulse(Struct, frozen=True):
    pulse: bytes  # JSON of a Pulse
    signature: str  # armoured SSHSIG in PULSE_NAMESPACE


class Parked(Struct, frozen=True):
    """One thing the agent will not do without a signature, and the command that gives it."""

    address: str
    reason: str
    remedy: str
    since_s: float


class NodeFinding(Struct, frozen=True, omit_defaults=True):
    code: str
    message: str
    remedy: str
    since_s: float = 0.0
    address: str = ""


class ContainerState(Struct, frozen=True, omit_defaults=True):
    service: str
    component: str
    status: Literal["running", "stopped", "unhealthy", "unknown"]
    image: str = ""
    epoch: int = 0
    id: str = ""  # the runtime's
    replica: int = 0
    deployment: str = ""
    pid: int = 0
    started_s: float = 0.0
    ports: tuple[str, ...] = ()  # "100.64.7.12:20003→8080"
    orphan: bool = False
    state: str = ""  # "starting" or "restarting"; else `status` says all
    restarts: int = 0
    last_exit: str = ""  # of its last process that ended: "7", "137 oom"


class RetiredData(Struct, frozen=True, omit_defaults=True):
    """Data of a service that is not applied here any more; stays until a signed purge, which sets it aside first.

    superseded: this node handed it over. fenced: it did not, and the service runs elsewhere by a newer epoch."""

    name: str
    path: str
    size_bytes: int
    files: int
    removed_in: int = 0  # revision; 0 if unknown
    purge: str = ""  # id of the order that set it aside; "" while it is in its place
    until_s: float = 0.0  # it is deleted then, or later; 0.0 while it is in its place, or if only an order deletes it
    checkpoints: int = 0  # set aside with it
    checkpoints_bytes: int = 0
    epoch: int = 0  # of the data; 0 if unknown
    state: Literal["superseded", "fenced", ""] = ""  # "": the service was removed
    target: str = ""  # the node that it was handed over to
    digest: str = ""  # of the manifest that was handed over
    left_s: float = 0.0  # when it was handed over, or this node heard that it runs elsewhere


class Departure(Struct, frozen=True, omit_defaults=True):
    """A service that is leaving this node or has left it, step by step (D-24); kept until the next revision."""

    service: str
    steps: tuple[StepResult, ...]


class CertificateState(Struct, frozen=True, omit_defaults=True):
    """One certificate that this node's proxy serves, or should serve."""

    names: tuple[str, ...]
    digest: str = ""  # of the leaf; "" while there is none
    serial: str = ""  # hexadecimal
    authority: Literal["own", "acme", ""] = ""
    not_before_s: float = 0.0
    expires_s: float = 0.0
    chain: int = 0  # how many certificates are sent along, the leaf among them
    handshake_s: float = 0.0  # when a real handshake first showed it; 0.0: not yet
    trouble: str = ""  # why it is not renewed, or what the handshake showed instead


class EdgeState(Struct, frozen=True, omit_defaults=True):
    """One public hostname on its edge. waiting: for the backend, its name or its certificate. live: the running proxy
    has the route and the handshake was seen. failed: it needs an operator. leaving: no longer applied, and kept
    until its backend is gone (I-19)."""

    hostname: str
    service: str
    component: str
    node: str  # the route leads to
    backend: str  # internal name
    phase: Literal["waiting", "live", "failed", "leaving"]
    address: str = ""
    port: int = 0
    epoch: int = 0
    mode: Literal["l4", "l7"] = "l7"
    step: str = ""  # in progress, or the one that failed
    code: str = ""
    message: str = ""
    remedy: str = ""
    steps: tuple[StepResult, ...] = ()  # of M-78, as far as the edge does them
    certificate: CertificateState | None = None
    backend_trouble: str = ""  # "" while it answers and proves its name
    dns_trouble: str = ""  # "" while the internal name resolves to the revision's address
    public_dns: str = ""  # a warning only: the address the public name resolves to instead (M-80)
    since_s: float = 0.0  # the phase
    former: str = ""  # of a waiting one: the address where the service was, which still answers its visitors


class NamesState(Struct, frozen=True, omit_defaults=True):
    """The DNS server of this node."""

    served: str = ""  # digest of the records served; "" while the server does not answer
    records: int = 0
    server: str = ""  # product and version
    trouble: str = ""


class Unattached(Struct, frozen=True, omit_defaults=True):
    """A directory that a service declares and this agent did not make."""

    service: str
    path: str
    files: int
    size_bytes: int
    names: tuple[str, ...] = ()  # the first of them
    more: bool = False


class UnattachedVolumes(Struct, frozen=True, omit_defaults=True):
    """The part of a report that lists them."""

    unattached: tuple[Unattached, ...] = ()


class CheckpointState(Struct, frozen=True, omit_defaults=True):
    """One checkpoint in a report."""

    service: str
    id: str
    size_bytes: int
    made_s: float
    deployment: str = ""
    revision: int = 0
    images: tuple[str, ...] = ()
    before: str = ""
    before_revision: int = 0
    before_images: tuple[str, ...] = ()
    mixed: bool = False
    left_out: tuple[str, ...] = ()  # what the copy does not hold


class UnlistedCheckpoints(Struct, frozen=True):
    """Older checkpoints of a service for which a report has no room."""

    service: str
    count: int
    size_bytes: int


class ReportedCheckpoints(Struct, frozen=True, omit_defaults=True):
    """The part of a report that lists them."""

    checkpoints: tuple[CheckpointState, ...] = ()
    unlisted_checkpoints: tuple[UnlistedCheckpoints, ...] = ()


class Report(Struct, frozen=True, omit_defaults=True, dict=True):
    """Changes rarely. It has times, not ages, so that an unchanged node has an unchanged report."""

    fleet: str
    node: str
    version: str
    arch: str = ""
    address: str = ""
    state: Literal["idle", "processing"] = "idle"
    health: Literal["healthy", "degraded"] = "healthy"  # M-47
    mode: Literal["converge", "observe"] = "converge"
    issuer: bytes = b""  # DER of the node's issuing certificate
    serving: str = ""  # digest of its listener's certificate, "" without a listener
    containers: tuple[ContainerState, ...] = ()
    services: tuple[ServiceState, ...] = ()
    left: tuple[Departure, ...] = ()
    retired: tuple[RetiredData, ...] = ()
    runtime: str = ""  # product and version, "" while none answers
    proxy: str = ""  # product and version, "" while none runs
    edge: tuple[EdgeState, ...] = ()
    gone: tuple[str, ...] = ()  # public hostnames this edge removed lately
    edge_unlisted: int = 0  # public hostnames left out of `edge`, as the report would be too long
    certificates: tuple[CertificateState, ...] = ()  # of internal names
    names: NamesState | None = None
    parked: tuple[Parked, ...] = ()
    findings: tuple[NodeFinding, ...] = ()
    operations: tuple[str, ...] = ()  # journaled operations under way
    audit_entries: int = 0
    audit_head: str = ""

    @cached_property
    def routes(self) -> Mapping[tuple[str, str], EdgeState]:
        """`edge` by hostname and service."""
        return {(one.hostname, one.service): one for one in reversed(self.edge)}


_CEILING = Facts(4_096_000, 1 << 50, 1 << 50, 1 << 60, 1 << 60, 100_000)


def clamped(facts: Facts) -> Facts:
    """Limited to what a machine can have; other values become the nearest valid one (D10)."""
    said = {name: getattr(facts, name) for name in Facts.__struct_fields__}
    values = {name: min(max(int(n), 0), getattr(_CEILING, name)) for name, n in said.items() if n is not None}
    values["memory_free_bytes"] = min(values["memory_free_bytes"], values["memory_bytes"])
    values["disk_free_bytes"] = min(values["disk_free_bytes"], values["disk_bytes"])
    return Facts(**values)
