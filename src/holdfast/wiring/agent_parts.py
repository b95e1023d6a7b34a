"""What the builders of an agent give each other: its ports, and the parts that several keepers use."""

from collections.abc import Callable

from msgspec import Struct

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say
from holdfast.agent.keeping import Keeping
from holdfast.agent.lanes import Lanes
from holdfast.agent.link.pace import Pace
from holdfast.agent.membership import Membership
from holdfast.agent.services.data.checkpoints import Checkpoints
from holdfast.agent.services.data.passports import Passports
from holdfast.agent.services.data.restore import Restore
from holdfast.agent.services.data.volumes import Volumes
from holdfast.agent.services.door import Door
from holdfast.agent.services.keeper import Services
from holdfast.agent.services.orders import ServiceOrders
from holdfast.agent.services.pacing import Pacing
from holdfast.agent.services.records import Records
from holdfast.agent.services.rollout.containers import Containers, SecretDelivery
from holdfast.agent.services.rollout.images import Images
from holdfast.agent.services.rollout.inventory import ContainerInventory
from holdfast.agent.services.wanted import Wanted
from holdfast.agent.time import NodeTime
from holdfast.agent.wake import Wake
from holdfast.ports.acceptance import Acceptance
from holdfast.ports.agent_link import AgentLink
from holdfast.ports.archive import Archiver
from holdfast.ports.archive_keys import ArchiveKeys
from holdfast.ports.audit_log import AuditLog
from holdfast.ports.backup_target import BackupTarget, OpenTarget
from holdfast.ports.certificate_store import CertificateStore
from holdfast.ports.certificates import Certificates
from holdfast.ports.clock import Clock
from holdfast.ports.fleet_link import FleetLink
from holdfast.ports.handshake import Handshake
from holdfast.ports.hub_copy import HubCopy
from holdfast.ports.identity_key import IdentityKey
from holdfast.ports.journal import Journal
from holdfast.ports.machine import Machine
from holdfast.ports.move_lines import MoveLines
from holdfast.ports.name_server import NameServer, Resolver
from holdfast.ports.need_files import NeedFiles
from holdfast.ports.need_handler import NeedHandler
from holdfast.ports.notifier import MakeNotifier
from holdfast.ports.own_files import OwnFiles
from holdfast.ports.prober import HealthProber, Prober
from holdfast.ports.proxy import Proxy
from holdfast.ports.public_authority import PublicAuthority
from holdfast.ports.random_source import RandomSource
from holdfast.ports.runtime import Runtime
from holdfast.ports.scratch import Scratch
from holdfast.ports.sealing import Opener, Sealer
from holdfast.ports.storage import Storage


class BackupPorts(Struct, frozen=True, kw_only=True):
    """`target` is the hub's store, `open` makes the others; `passage` is the hub's mailbox for moves, `lines` is the
    direct way; `own` are the files of the node itself, `hub` fetches that of the hub; `home` is the archiver's own
    directory."""

    archiver: Archiver
    target: BackupTarget
    passage: BackupTarget
    lines: MoveLines
    open: OpenTarget
    sealer: Sealer
    opener: Opener
    keys: ArchiveKeys
    own: OwnFiles
    hub: HubCopy
    home: str


class DrillPorts(Struct, frozen=True):
    """`prober` probes containers from inside."""

    scratch: Scratch
    prober: HealthProber


class NeedPorts(Struct, frozen=True):
    """`link` calls providers, `files` are for containers; `handler` answers what makes credentials of a type."""

    link: AgentLink
    files: NeedFiles
    handler: Callable[[str], NeedHandler]


class Ports(Struct, frozen=True, kw_only=True):
    """Everything outside of the agent, for the functions of this module only: no class of the agent gets it."""

    link: FleetLink
    journal: Journal
    acceptance: Acceptance
    storage: Storage
    audit: AuditLog
    machine: Machine
    key: IdentityKey
    clock: Clock
    random: RandomSource
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
    notifier: MakeNotifier
    backups: BackupPorts
    drills: DrillPorts
    needs: NeedPorts
    data_dir: str
    say: Say


class Common(Struct, frozen=True):
    """What this module builds first and hands to several classes."""

    member: Membership
    time: NodeTime
    findings: Findings
    keeping: Keeping
    lanes: Lanes
    pace: Pace
    report: Wake  # called when something in the report changed
    services: Wake  # called when the services are to be looked at
    follow: Wake  # called when more, or less, of the revision in force can be followed


class ServiceSide(Struct, frozen=True):
    """The keeper of the services, and those of its parts that other keepers use."""

    keeper: Services
    orders: ServiceOrders
    inventory: ContainerInventory
    images: Images
    wanted: Wanted
    records: Records
    containers: Containers
    door: Door
    checkpoints: Checkpoints
    restore: Restore
    passports: Passports
    volumes: Volumes
    pacing: Pacing
    changed: Wake  # called when the containers or the records changed
