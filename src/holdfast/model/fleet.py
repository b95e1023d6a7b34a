"""The declared fleet and everything in it, as written in its files. Frozen values; opens no file.

These structs are also the schema: `declared` checks files against them, the key reference in docs/reference is
printed from them, and their canonical bytes are what a revision refers to.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from holdfast.model.drill import Drill
from holdfast.model.need import Need, Provides
from holdfast.model.schedule import CronText, Schedule, ZoneText
from holdfast.model.schema import (
    AbsolutePath,
    AcmeUrl,
    AlertCode,
    AppriseUrl,
    Cpu,
    Duration,
    EnvName,
    HeaderName,
    Hostname,
    HostVolume,
    HubUrl,
    ImageRef,
    Memory,
    Method,
    NameText,
    Owner,
    Port,
    Protect,
    QuietText,
    Recipient,
    SecretFile,
    Table,
    Text,
    User,
    WebhookUrl,
    form,
)

Role = Literal["hub", "worker", "edge", "provider", "builder"]
Grade = Literal["apply", "destroy", "root"]


# ---- services -------------------------------------------------------------------------------------------------------


class Route(Table, frozen=True):
    name: NameText
    port: Port
    mode: Literal["l4", "l7"] = "l7"
    hostname: Hostname | UnsetType = UNSET
    public: bool = False
    protocol: Literal["http1", "h2c"] = "http1"
    pass_headers: Annotated[tuple[HeaderName, ...], Meta(max_length=32)] = ()


class Volume(Table, frozen=True):
    name: NameText
    path: AbsolutePath
    protect: Protect
    speed: Literal["fast", "slow"] = field(default="fast", name="class")
    checkpoint: Literal["auto", "off"] = "auto"
    owner: Owner | UnsetType = UNSET


class Resources(Table, frozen=True):
    cpu: Cpu | UnsetType = UNSET
    memory: Memory | UnsetType = UNSET


class Health(Table, frozen=True):
    type: Literal["http", "tcp", "grpc", "exec"]
    path: AbsolutePath | UnsetType = UNSET
    port: Port | UnsetType = UNSET
    cmd: tuple[Text, ...] = ()
    interval: Duration = "1s"
    timeout: Duration = "2s"
    start_period: Duration = "30s"


class SecretRef(Table, frozen=True):
    """One secret of a component: a file below /run/secrets (by default with the secret's name), or a variable."""

    name: NameText
    env: EnvName | UnsetType = UNSET
    file: SecretFile | UnsetType = UNSET


class Hooks(Table, frozen=True):
    """Commands run once per deployment in the component's new image, before it starts and after it serves."""

    pre_deploy: tuple[Text, ...] = ()
    post_deploy: tuple[Text, ...] = ()


class Component(Table, frozen=True):
    name: NameText
    image: ImageRef
    cmd: tuple[Text, ...] = ()
    env: dict[EnvName, Text] = field(default_factory=dict)
    volumes: tuple[Volume | HostVolume, ...] = ()
    routes: tuple[Route, ...] = ()
    resources: Resources | UnsetType = UNSET
    update: Literal["rolling", "recreate"] | UnsetType = UNSET
    replicas: Annotated[int, Meta(ge=1, le=32)] = 1
    health: Health | UnsetType = UNSET
    secrets: tuple[NameText | SecretRef, ...] = ()
    hooks: Hooks | UnsetType = UNSET
    user: User | UnsetType = UNSET
    scratch: Annotated[tuple[AbsolutePath, ...], Meta(max_length=32)] = ()
    settle: Duration | UnsetType = UNSET
    stop_timeout: Duration | UnsetType = UNSET


class Snapshot(Table, frozen=True):
    method: Method = ""
    include: tuple[Text, ...] = ()
    exclude: tuple[Text, ...] = ()
    restore: Text = ""
    component: NameText | UnsetType = UNSET
    volume: NameText | UnsetType = UNSET


class Service(Table, frozen=True):
    components: Annotated[tuple[Component, ...], Meta(min_length=1, max_length=64)]
    name: NameText | UnsetType = UNSET
    tier: Literal["core", "worker"] = "worker"
    node: NameText | UnsetType = UNSET
    active: bool = True
    protect: bool = False
    custody: Literal["sealed", "hub"] = "sealed"
    failover: tuple[NameText, ...] = ()
    snapshot: Snapshot | UnsetType = UNSET
    schedule: Annotated[tuple[Schedule, ...], Meta(max_length=64)] = ()
    drill: Drill | UnsetType = UNSET
    needs: Annotated[tuple[Need, ...], Meta(max_length=32)] = ()


# ---- fleet.toml -----------------------------------------------------------------------------------------------------


class Settings(Table, frozen=True):
    name: NameText
    hub: HubUrl = ""
    hub_key: Text = ""
    internal_zone: Hostname | UnsetType = UNSET
    public_domains: tuple[Hostname, ...] = ()
    overlay_cidr: Text = "100.64.0.0/10"
    removals_max: Annotated[int, Meta(ge=0, le=1_000_000)] = 3
    nodes_max: Annotated[int, Meta(ge=1, le=10_000)] = 200
    parallel: Annotated[int, Meta(ge=1, le=64)] = 4


class Thresholds(Table, frozen=True):
    apply: Annotated[int, Meta(ge=1, le=16)] = 1
    destroy: Annotated[int, Meta(ge=1, le=16)] = 1
    root: Annotated[int, Meta(ge=1, le=16)] = 1
    destroy_requires: Literal["touch"] | UnsetType = UNSET
    id: Annotated[str, form(r"^[0-9a-f]{16,64}$", "16 to 64 hexadecimal digits")] | UnsetType = UNSET


class Operator(Table, frozen=True):
    name: NameText
    key: Text
    grade: Grade
    recipient: Recipient | UnsetType = UNSET
    scope: tuple[Text, ...] = ()


class Node(Table, frozen=True):
    name: NameText
    roles: Annotated[tuple[Role, ...], Meta(min_length=1)]
    address: Text = ""
    public_address: Text = ""
    key: Text = ""
    link: Literal["poll", "dial"] = "poll"
    reconcile: Literal["converge", "observe"] = "converge"
    orphans: Literal["report", "stop", "remove"] = "report"
    orphans_foreign: bool = False
    proxy: Literal["internal", "public", "none"] | UnsetType = UNSET
    peer_calls: Literal["declared", "relay", "off"] = "declared"
    direct: Literal["off", "on"] = "off"
    labels: dict[EnvName, Text] = field(default_factory=dict)


class Retain(Table, frozen=True):
    """How many backups are kept: the newest ones, and the newest one of each of so many days, weeks and months."""

    last: Annotated[int, Meta(ge=0, le=10_000)] = 0
    daily: Annotated[int, Meta(ge=0, le=10_000)] = 0
    weekly: Annotated[int, Meta(ge=0, le=10_000)] = 0
    monthly: Annotated[int, Meta(ge=0, le=10_000)] = 0


Kept = Annotated[int, Meta(ge=1, le=10_000)] | Retain


class StoragePolicy(Table, frozen=True):
    schedule: Text = ""
    retain: Kept | UnsetType = UNSET


class Storage(Table, frozen=True):
    name: NameText
    type: Literal["local-dir", "usb", "s3", "restic", "nfs", "cifs", "pbs"]
    durable_id: Text
    location: Text = ""
    nodes: Annotated[tuple[NameText, ...], Meta(max_length=256)] = ()
    secret: NameText | UnsetType = UNSET
    speed: Literal["fast", "slow"] = field(default="slow", name="class")
    role: Literal["copy", "primary", "offsite", "vzdump-target", "pbs-offsite", "bulk-data"] = "copy"
    policy: StoragePolicy = StoragePolicy()
    state: Literal["attached", "disconnected", "decommissioned"] = "attached"


class PolicyBinding(Table, frozen=True):
    name: NameText
    file: Text
    applies_to: Annotated[tuple[Text, ...], Meta(min_length=1)]


class Backups(Table, frozen=True):
    interval: Duration = "24h"
    retain: Kept = 7
    drill_interval: Duration = "7d"
    cron: CronText | UnsetType = UNSET  # in place of interval
    drill_cron: CronText | UnsetType = UNSET  # in place of drill_interval
    timezone: ZoneText = "UTC"


class Timeouts(Table, frozen=True):
    deploy: Duration = "5m"
    edge_route: Duration = "30s"
    health_check: Duration = "5s"
    undeploy: Duration = "2m"
    snapshot: Duration = "10m"


class AlertTarget(Table, frozen=True):
    name: NameText
    webhook: WebhookUrl | UnsetType = UNSET
    apprise: AppriseUrl | UnsetType = UNSET
    on: tuple[AlertCode, ...] = ()
    secret: NameText | UnsetType = UNSET
    nodes: Annotated[tuple[NameText, ...], Meta(max_length=64)] = ()
    after: Duration = "15m"
    quiet: QuietText | UnsetType = UNSET
    timezone: ZoneText = "UTC"
    quiet_except: tuple[AlertCode, ...] = ()


class Acme(Table, frozen=True):
    """A public authority that edges order certificates from (RFC 8555, HTTP-01)."""

    directory: AcmeUrl
    contact: tuple[Text, ...] = ()
    terms_agreed: bool = False
    ca: Text = ""
    domains: tuple[Hostname, ...] = ()


class Dns(Table, frozen=True):
    """The nodes that serve internal names to the fleet."""

    driver: Literal["dnsmasq", "none"] = "dnsmasq"
    nodes: tuple[NameText, ...] = ()
    upstream: tuple[Text, ...] = ()


class Overlay(Table, frozen=True):
    driver: Literal["external"] = "external"
    encrypted: bool = False


class FleetFile(Table, frozen=True):
    fleet: Settings
    operators: Annotated[tuple[Operator, ...], Meta(min_length=1, max_length=256)]
    nodes: tuple[Node, ...] = ()
    trust: Thresholds = Thresholds()
    storage: Annotated[tuple[Storage, ...], Meta(max_length=32)] = ()
    policies: tuple[PolicyBinding, ...] = ()
    backups: Backups = Backups()
    timeouts: Timeouts = Timeouts()
    alerts: Annotated[tuple[AlertTarget, ...], Meta(max_length=32)] = ()
    acme: Acme | UnsetType = UNSET
    dns: Dns = Dns()
    overlay: Overlay = Overlay()
    provides: Annotated[tuple[Provides, ...], Meta(max_length=1000)] = ()


# ---- the aggregate --------------------------------------------------------------------------------------------------


class Policy(Struct, frozen=True):
    """A bound policy with the text of its file; a later step evaluates it, this one serves it as applied."""

    name: str
    text: bytes
    applies_to: tuple[str, ...]


class FleetDocument(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `fleet` resource: settings that every node may know."""

    settings: Settings
    backups: Backups = Backups()
    timeouts: Timeouts = Timeouts()
    acme: Acme | UnsetType = UNSET
    dns: Dns = Dns()
    overlay: Overlay = Overlay()


class Fleet(Struct, frozen=True):
    """A whole fleet directory after all checks: the input of planning."""

    settings: Settings
    thresholds: Thresholds
    operators: tuple[Operator, ...]
    backups: Backups
    timeouts: Timeouts
    nodes: dict[str, Node]
    services: dict[str, Service]
    storage: dict[str, Storage]
    policies: dict[str, Policy]
    alerts: dict[str, AlertTarget] = {}
    secrets: dict[str, bytes] = {}  # sealed; cannot be opened here
    acme: Acme | UnsetType = UNSET
    dns: Dns = Dns()
    overlay: Overlay = Overlay()
    provides: dict[str, Provides] = {}  # by NODE.TYPE
