"""The steps that most commands share: read the directory, find the hub, check the heads, plan."""

import os
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.fleet.hub_identity import state_dir
from holdfast.cli.fleet.seen_heads import LOCK_BYTES_MAX, LOCK_NAME, Heads
from holdfast.cli.nodes import known_nodes
from holdfast.cli.tools import Toolbox
from holdfast.declared.hub_address import hub_of
from holdfast.declared.load import load
from holdfast.errors import Conflict
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from holdfast.model.plan import Plan
from holdfast.ports.hub_link import HubReader, PlanReader

if TYPE_CHECKING:  # what plans is loaded while the hub answers
    from holdfast.planning.plan import Inputs


class Standing(Struct, frozen=True):
    hub: HubReader | None
    target: str
    heads: Heads
    applied: Applied | None
    formats: Mapping[str, int] = {}  # node → the newest format that it reads, if a revision is drafted


class Session(Standing, frozen=True, kw_only=True):
    fleet: Fleet


def heads(args: Namespace, box: Toolbox) -> Heads:
    return Heads(box.disk, args.fleet, state_dir(box.environ), args.hub or "")


def found_target(args: Namespace, box: Toolbox) -> str:
    """The hub or ledger. Of the directory only `hub` in fleet.toml is read, so that a mistake in any file keeps no
    command from what runs (N30); with --hub it is not needed."""
    return chosen_target(args, "" if args.hub else hub_of(box.files.fleet(args.fleet)))


def target_of_directory(args: Namespace, box: Toolbox) -> str:
    """The same, for commands to which the directory matters: a wrong --fleet is an error also with --hub."""
    box.files.fleet(args.fleet)
    return found_target(args, box)


def chosen_target(args: Namespace, declared: str) -> str:
    return args.hub or declared or os.path.join(args.fleet, ".ledger")


def standing(args: Namespace, box: Toolbox, drafts: bool = False) -> Standing:
    """What is applied, verified. Reads no declared file and does not write to the ledger. `drafts`: a revision is
    drafted without `inputs`."""
    target = target_of_directory(args, box)
    hub = box.hubs.reader(target)
    memory = heads(args, box)
    applied = memory.check(hub, adopt=getattr(args, "adopt", False))
    return Standing(hub, target, memory, applied, known_nodes.check_head(hub, applied, box) if drafts else {})


def begin(args: Namespace, box: Toolbox, secrets_may_lack: bool = False, plans: bool = False) -> Session:
    """Everything a plan needs, verified. Does not write to the ledger. `plans`: `inputs` follows, which compares the
    head with the nodes."""
    fleet = load(box.files.fleet(args.fleet), secrets_may_lack)
    target = chosen_target(args, fleet.settings.hub)
    hub = box.hubs.reader(target)
    if plans and isinstance(hub, PlanReader):
        hub.expect_plan()
        from holdfast.planning import plan  # noqa: F401 (takes about as long as the answers)
    memory = heads(args, box)
    applied = memory.check(hub, adopt=getattr(args, "adopt", False))
    return Session(hub, target, memory, applied, fleet=fleet)


def nothing_applied(target: str) -> Conflict:
    return Conflict(
        f"nothing has been applied yet ({target})",
        remedy="`holdfast apply` makes the first revision",
        code="nothing_applied",
    )


def no_ledger(target: str, args: Namespace, box: Toolbox) -> Conflict:
    lost = "check --hub; restore the ledger from a backup, or rebuild it from the nodes: holdfast import ledger --help"
    is_lost = has_lock(args, box)
    return Conflict(
        f"there is no ledger at {target}" + (", but fleet.lock names an applied revision" if is_lost else ""),
        remedy=lost if is_lost else "`holdfast apply` creates the ledger with the first revision",
        code="nothing_applied",
    )


def has_lock(args: Namespace, box: Toolbox) -> bool:
    """A fleet.lock proves that there was a ledger: if it is missing, an apply would not help."""
    return box.disk.read(os.path.join(args.fleet, LOCK_NAME), LOCK_BYTES_MAX) is not None


def inputs(session: Session, args: Namespace, box: Toolbox, only: str | None = None) -> "Inputs":
    from holdfast.cli import plan_inputs

    return plan_inputs.inputs(session.fleet, session.hub, session.applied, args, box, only)[0]


def make_plan(session: Session, args: Namespace, box: Toolbox, only: str | None = None) -> Plan:
    """Refuse keys without an effect that are new, before anything is asked of a registry or a node."""
    from holdfast.cli import plan_inputs
    from holdfast.declared import without_effect
    from holdfast.planning.plan import plan

    _expect_content(session, only)
    judged = without_effect.judge(session.fleet, session.applied)
    if judged.refused:
        raise without_effect.refusal(judged.refused, box.files.fleet(args.fleet))
    given, nodes = plan_inputs.inputs(session.fleet, session.hub, session.applied, args, box, only)
    found = plan(session.fleet, session.applied, given)
    if nodes is not None and session.applied is not None:
        found = known_nodes.with_data(found, session.applied, nodes)
    return replace(found, warnings=(*found.warnings, *judged.warnings()))


def _expect_content(session: Session, only: str | None) -> None:
    """A changed service is compared with its applied content: ask for that while nodes are verified."""
    if only is None or session.applied is None or not isinstance(session.hub, PlanReader):
        return
    from holdfast.planning.documents import service_digest

    entry = session.applied.table.entries.get(only)
    declared = session.fleet.services.get(only.removeprefix("service."))
    if entry and declared and service_digest(declared) != entry.digest:
        session.hub.expect_content(entry.digest)
