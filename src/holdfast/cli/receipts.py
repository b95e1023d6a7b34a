"""Waiting for receipts: an apply is done when every affected node that joined has signed for the revision."""

from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.cli.toolbox import Toolbox
from holdfast.errors import Unreachable
from holdfast.model.applied import Applied
from holdfast.model.revision import Head
from holdfast.ports.hub_link import FleetReader, HubReader

if TYPE_CHECKING:
    from holdfast.cli.testimony import Testimony

WAIT_S = 30.0
PAUSE_S_FIRST = 0.05
PAUSE_S_MAX = 0.25


class Receipts(Struct, frozen=True):
    """Names of nodes."""

    accepted: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    not_joined: tuple[str, ...] = ()


NONE = Receipts()


def wait(hub: HubReader, before: Applied | None, head: Head, box: Toolbox, wait_s: float = WAIT_S) -> Receipts:
    """`before` is what was applied when the plan was made. A ledger directory has nothing to wait for."""
    if not isinstance(hub, FleetReader):
        return NONE
    from holdfast.cli import testimony  # verifying signatures: an offline apply need not load it

    applied = hub.applied()
    if applied is None or applied.head != head:
        return NONE  # somebody applied on top already, and that command waits; this table is not ours to believe
    known = before.header.manifests if before is not None else {}
    affected = {node for node, digest in applied.header.manifests.items() if known.get(node) != digest}
    until_s = box.clock.monotonic_s() + wait_s
    pause_s = PAUSE_S_FIRST
    while True:
        heard = testimony.hear(hub.nodes(), applied, box.clock.now_s())
        joined = {node for node in affected if heard[node].key}  # proven, whatever the hub says of it
        accepted = {node for node in joined if _accepted(heard[node], head)}
        missing = joined - accepted
        if not missing or box.clock.monotonic_s() >= until_s:
            return Receipts(tuple(sorted(accepted)), tuple(sorted(missing)), tuple(sorted(affected - joined)))
        box.clock.sleep(pause_s)
        pause_s = min(pause_s * 1.5, PAUSE_S_MAX)


def _accepted(one: "Testimony", head: Head) -> bool:
    """A newer one counts as well: to get there the node walked over this one."""
    if one.pulse is None:
        return False
    accepted = one.pulse.accepted
    return accepted == head or accepted.number > head.number


def told(receipts: Receipts) -> list[str]:
    lines = []
    if receipts.accepted:
        lines.append(f"Signed for by {', '.join(receipts.accepted)}.")
    if receipts.not_joined:
        names = ", ".join(receipts.not_joined)
        lines.append(
            f"Not waited for, as no machine joined yet: {names}; holdfast node invite {receipts.not_joined[0]}"
        )
    return lines


def missing(receipts: Receipts, head: Head) -> Unreachable:
    names = ", ".join(receipts.missing)
    return Unreachable(
        f"revision {head.number} IS applied, but within {WAIT_S:.0f} s these nodes did not sign for it: {names}",
        remedy="nothing has to be applied again; they take it when they check in: holdfast node list",
        code="receipts_missing",
    )
