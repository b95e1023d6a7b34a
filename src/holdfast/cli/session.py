"""The steps that most commands share: read the directory, find the hub, check the heads, plan."""

import os
import re
from argparse import Namespace
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.hub_identity import state_dir
from holdfast.cli.seen_heads import Heads
from holdfast.cli.tools import Toolbox
from holdfast.declared import without_effect
from holdfast.declared.load import load
from holdfast.declared.problem import Problems
from holdfast.declared.sources import FILE_BYTES_MAX
from holdfast.declared.without_effect import Use
from holdfast.errors import Conflict, Invalid
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from holdfast.model.plan import Plan
from holdfast.planning import images
from holdfast.planning.plan import Inputs, plan
from holdfast.ports.fleet_directory import FleetDirectory
from holdfast.ports.hub_link import FleetReader, HubReader

HOST_AND_PORT = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}"


class Session(Struct, frozen=True):
    fleet: Fleet
    hub: HubReader | None
    target: str
    heads: Heads
    applied: Applied | None


def heads(args: Namespace, box: Toolbox) -> Heads:
    return Heads(box.disk, args.fleet, state_dir(box.environ), args.hub or "")


def hub_target(args: Namespace, fleet: Fleet | None) -> str:
    if args.hub and re.fullmatch(HOST_AND_PORT, args.hub) and not os.path.exists(args.hub):
        raise Invalid(
            f"--hub {args.hub} is neither a URL nor a ledger directory",
            remedy=f"did you mean --hub https://{args.hub}?",
            code="no_hub",
        )
    declared = fleet.settings.hub if fleet else ""
    return args.hub or declared or os.path.join(args.fleet, ".ledger")


def begin(args: Namespace, box: Toolbox, secrets_may_lack: bool = False) -> Session:
    """Everything a plan needs, verified. Does not write to the ledger."""
    fleet = load(box.fleet_directory(args.fleet), secrets_may_lack)
    target = hub_target(args, fleet)
    hub = box.hub(target)
    memory = heads(args, box)
    applied = memory.check(hub, adopt=getattr(args, "adopt", False))
    return Session(fleet, hub, target, memory, applied)


def nothing_applied(target: str) -> Conflict:
    return Conflict(
        f"nothing has been applied yet ({target})",
        remedy="holdfast apply makes the first revision",
        code="nothing_applied",
    )


def inputs(session: Session, args: Namespace, box: Toolbox, only: str | None = None) -> Inputs:
    wanted = images.asked_for(session.fleet)
    answers = box.registry().resolve(wanted) if wanted and not getattr(args, "offline", False) else {}
    seen = session.hub.observations() if session.hub is not None else {}
    found = Inputs(seen, answers, only=only)
    return _with_identities(found, session, box)


def _with_identities(found: Inputs, session: Session, box: Toolbox) -> Inputs:
    """Only a running hub knows nodes; before the first revision there is no trust to verify them with."""
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
    """Refuse keys without an effect that are new, before anything is asked of a registry or a node."""
    judged = without_effect.judge(session.fleet, session.applied)
    if judged.refused:
        raise _refusal(judged.refused, box.fleet_directory(args.fleet))
    found = plan(session.fleet, session.applied, inputs(session, args, box, only))
    return replace(found, warnings=(*found.warnings, *judged.warnings()))


def _refusal(refused: Sequence[Use], directory: FleetDirectory) -> Problems:
    files = sorted({use.file for use in refused})
    return without_effect.problems(refused, {file: directory.read(file, FILE_BYTES_MAX) for file in files})
