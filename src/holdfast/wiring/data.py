"""Build what keeps the data of services: reports about it, and the orders that change it."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from holdfast.agent.keeper import Act
from holdfast.agent.orders.order_steps import OrderSteps
from holdfast.agent.services.data.asides import Asides
from holdfast.agent.services.data.attach import AttachData
from holdfast.agent.services.data.checkpoints import Checkpoints
from holdfast.agent.services.data.filling import Filling
from holdfast.agent.services.data.left import LeftBook, LeftData
from holdfast.agent.services.data.mounts import Mounts
from holdfast.agent.services.data.passports import Passports
from holdfast.agent.services.data.purge import Purge
from holdfast.agent.services.data.restore import Restore
from holdfast.agent.services.data.retired import Retired
from holdfast.agent.services.data.users import DataUsers
from holdfast.agent.services.data.volumes import Volumes
from holdfast.agent.services.deployments import Deployments
from holdfast.agent.services.door import Door, Vouch
from holdfast.agent.services.holds import Holds
from holdfast.agent.services.orders import ServiceOrders
from holdfast.agent.services.records import Records
from holdfast.agent.services.wanted import Wanted
from holdfast.wiring.agent_parts import Common, Ports


class Kept(Struct, frozen=True):
    passports: Passports
    volumes: Volumes
    checkpoints: Checkpoints
    asides: Asides
    retired: Retired


def kept(
    ports: Ports,
    common: Common,
    vouch: Vouch,
    door: Door,
    left: LeftBook,
    changed: Callable[[], None],
) -> Kept:
    storage, journal, node = ports.storage, ports.journal, common.member.node
    passports = Passports(journal=journal, storage=storage, key=ports.key, fleet=common.member.fleet, node=node)
    mounts = Mounts(storage, vouch, node, ports.data_dir)
    volumes = Volumes(
        passports=passports,
        journal=journal,
        storage=storage,
        mounts=mounts,
        filling=Filling(passports, storage, mounts, door),
        data_dir=ports.data_dir,
    )
    checkpoints = Checkpoints(storage=storage, passports=passports, journal=journal, node=node, changed=changed)
    asides = Asides(storage=storage, journal=journal, clock=ports.clock, node=node)
    retired = Retired(
        left=LeftData(storage, passports, left),
        volumes=volumes,
        checkpoints=checkpoints,
        asides=asides,
        clock=ports.clock,
        findings=common.findings,
        changed=changed,
    )
    return Kept(passports, volumes, checkpoints, asides, retired)


def restore_of(
    ports: Ports, common: Common, kept: Kept, orders: ServiceOrders, wanted: Wanted, records: Records
) -> Restore:
    return Restore(
        storage=ports.storage,
        passports=kept.passports,
        checkpoints=kept.checkpoints,
        services=orders,
        users=DataUsers(ports.storage, ports.runtime, ports.journal, common.lanes),
        holds=Holds(wanted.read, records, common.services),
        steps=OrderSteps(ports.journal, ports.clock),
    )


def acts(
    ports: Ports, common: Common, kept: Kept, restore: Restore, wanted: Wanted, deployments: Deployments
) -> Mapping[str, Act]:
    purge = Purge(
        storage=ports.storage,
        passports=kept.passports,
        retired=kept.retired,
        asides=kept.asides,
        users=DataUsers(ports.storage, ports.runtime, ports.journal, common.lanes),
        steps=OrderSteps(ports.journal, ports.clock),
        node=common.member.node,
    )
    attach = AttachData(wanted.read, kept.volumes, deployments, common.services)
    return {**purge.acts, **restore.acts, **kept.checkpoints.acts, **attach.acts}
