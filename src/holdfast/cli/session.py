"""The steps most commands share: read the directory, find the hub, check the heads, plan. One place, one order."""

import os
from argparse import Namespace

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.hub_identity import state_dir
from holdfast.cli.seen_heads import Heads
from holdfast.cli.tools import Toolbox
from holdfast.declared.load import load
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from holdfast.model.plan import Plan
from holdfast.planning import images
from holdfast.planning.plan import Inputs, plan
from holdfast.ports.hub_link import FleetReader, HubReader


class Session(Struct, frozen=True):
    fleet: Fleet
    hub: HubReader | None
    target: str
    heads: Heads
    applied: Applied | None


def heads(args: Namespace, box: Toolbox) -> Heads:
    return Heads(box.disk, args.fleet, state_dir(box.environ), args.hub or "")


def hub_target(args: Namespace, fleet: Fleet | None) -> str:
    declared = fleet.settings.hub if fleet else ""
    return args.hub or declared or os.path.join(args.fleet, ".ledger")


def begin(args: Namespace, box: Toolbox, secrets_may_lack: bool = False) -> Session:
    """Everything a plan looks at, verified. Writes nothing into the ledger."""
    fleet = load(box.fleet_directory(args.fleet), secrets_may_lack)
    target = hub_target(args, fleet)
    hub = box.hub(target)
    memory = heads(args, box)
    applied = memory.check(hub, adopt=getattr(args, "adopt", False))
    return Session(fleet, hub, target, memory, applied)


def inputs(session: Session, args: Namespace, box: Toolbox, only: str | None = None) -> Inputs:
    wanted = images.asked_for(session.fleet)
    answers = box.registry().resolve(wanted) if wanted and not getattr(args, "offline", False) else {}
    seen = session.hub.observations() if session.hub is not None else {}
    found = Inputs(seen, answers, only=only)
    return _with_identities(found, session, box)


def _with_identities(found: Inputs, session: Session, box: Toolbox) -> Inputs:
    """Only a running hub has met nodes; before the first revision there is no trust to prove anything with."""
    if session.applied is None or not isinstance(session.hub, FleetReader):
        return found
    from holdfast.cli import issuers  # it verifies signatures: an offline plan need not load it
    from holdfast.trust import reports

    known = reports.verify(session.hub.nodes(), session.applied, box.clock.now_s()).identities
    known = issuers.fit_only(known, session.applied, box.certificate_facts, box.clock.now_s())
    for doubt in known.doubts:
        box.terminal.warn(doubt)
    return replace(found, identities=known.proven, revoked=known.revoked, addresses=known.addresses)


def make_plan(session: Session, args: Namespace, box: Toolbox, only: str | None = None) -> Plan:
    return plan(session.fleet, session.applied, inputs(session, args, box, only))
