"""Wait for receipts: an apply is done when every affected node that joined has signed for the revision."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting.report_poll import ReportPoll
from holdfast.errors import Corrupt, HoldfastError, Unreachable
from holdfast.model.applied import Applied, affected, content, manifests_of
from holdfast.model.manifest import NodeManifest
from holdfast.model.record import Link
from holdfast.model.revision import Head
from holdfast.ports.hub_link import FleetReader, HubReader

if TYPE_CHECKING:
    from holdfast.model.verified_report import VerifiedReport
    from holdfast.trust.chain import Anchor

WAIT_S = 30.0
MINOR_WAIT_S = 5.0  # a node that is connected has signed by then
NAMED_MAX = 3  # more nodes are counted
FURTHER_MAX = 1_000  # revisions on top of ours, while we wait for theirs


class Receipts(Struct, frozen=True):
    """Names of nodes."""

    accepted: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    not_joined: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()  # silent, and only DNS names of other nodes' services changed for them


NONE = Receipts()


class Following(Struct, frozen=True):
    """The revision of this command, and the nodes that still exist and whose manifest it changed."""

    applied: Applied
    affected: frozenset[str]
    branch: "Branch"
    before: Applied | None = None
    given_up: frozenset[str] = frozenset()  # silent nodes whose copies a move replaces

    def is_minor(self, node: str) -> bool:
        """Only names of services elsewhere changed for this node: nothing that runs depends on its receipt."""
        was = _nameless(self.before, node) if self.before is not None else None
        return was is not None and was == _nameless(self.applied, node)


def _nameless(applied: Applied, node: str) -> NodeManifest | None:
    digest = applied.header.manifests.get(node)
    if digest is None:
        return None
    try:
        found = msgspec.json.decode(content(applied.contents, digest, f"the manifest of {node}"), type=NodeManifest)
    except (HoldfastError, msgspec.DecodeError):
        return None  # then the command waits for it as for every node
    return replace(found, names={})


def following(hub: HubReader, before: Applied | None, head: Head) -> Following | None:
    """`before`: the applied revision at planning time. None: another command applied a later revision already, and
    that command waits; this one has not verified that table."""
    from holdfast.trust.chain import Anchor

    applied = hub.applied()
    if applied is None or applied.head != head:
        _check_on_top(hub, applied, head)
        return None
    changed = affected(manifests_of(before), applied.header.manifests)
    remaining = frozenset(node for node in changed if node in applied.header.manifests)
    return Following(applied, remaining, Branch(hub, Anchor(applied.fleet_id, head, applied.trust)), before)


def wait(hub: HubReader, before: Applied | None, head: Head, box: Toolbox, wait_s: float = WAIT_S) -> Receipts:
    """A ledger directory has nothing to wait for."""
    if not isinstance(hub, FleetReader):
        return NONE
    found = following(hub, before, head)
    if found is None:
        return NONE
    return gather(found, ReportPoll(hub, found.applied, tuple(found.affected), box), box, wait_s)


def gather(
    of: Following,
    lookout: ReportPoll,
    box: Toolbox,
    wait_s: float = WAIT_S,
    seen: "Callable[[dict[str, VerifiedReport]], None]" = lambda heard: None,
) -> Receipts:
    """`seen` is called with every look at the reports."""
    began_s, since_s = box.clock.monotonic_s(), box.clock.now_s()
    unheard: set[str] = set()
    while True:
        heard = lookout.look()
        seen(heard)
        joined = {node for node in of.affected if heard[node].key}  # proven here, not by the hub
        signed = {node for node in joined if accepted(heard[node], of.branch)}
        waited_s = box.clock.monotonic_s() - began_s
        silent = {node for node in joined - signed - unheard if _is_silent(heard[node], since_s, waited_s)}
        unheard = {node for node in unheard | silent if node not in signed and (node in unheard or of.is_minor(node))}
        missing = joined - signed - unheard
        if not missing or waited_s >= wait_s:
            return Receipts(*(tuple(sorted(names)) for names in (signed, missing, of.affected - joined, unheard)))
        hasty = waited_s < MINOR_WAIT_S
        lookout.rest((min(MINOR_WAIT_S, wait_s) if hasty else wait_s) - waited_s)


def _is_silent(one: "VerifiedReport", since_s: float, waited_s: float) -> bool:
    """The hub calls it unhealthy, or it has sent no pulse since this revision: a node that runs sends one at once."""
    signed_s = one.pulse.at_s if one.pulse is not None else 0.0
    return one.status == "unhealthy" or (waited_s >= MINOR_WAIT_S and signed_s < since_s)


class Branch:
    """Which heads come after the revision of this command: verified from there, link by link, as a node does it. A hub
    that shows nodes another branch has no links from this revision to the one they signed for."""

    def __init__(self, hub: HubReader, start: "Anchor") -> None:
        self._hub = hub
        self._at = start
        self._heads = {start.head.number: start.head}

    def has(self, head: Head) -> bool:
        known = self._at.head.number
        if known < head.number <= known + FURTHER_MAX:
            try:
                self._walk(self._hub.links(known + 1, head.number))
            except HoldfastError:
                return False  # not proven; the wait continues, and ends with this node among the missing
        return self._heads.get(head.number) == head

    def _walk(self, links: Sequence[Link]) -> None:
        from holdfast.trust.chain import step

        for link in links:
            self._at = step(self._at, link)
            self._heads[self._at.head.number] = self._at.head


def accepted(one: "VerifiedReport", branch: Branch) -> bool:
    """A newer revision counts as well, if it comes after this one: the node accepted this one on the way."""
    return one.pulse is not None and branch.has(one.pulse.accepted)


def _check_on_top(hub: HubReader, applied: Applied | None, head: Head) -> None:
    """The applied revision must come after the one just committed; else the hub shows another history."""
    from holdfast.trust.chain import anchor, walk

    if applied is not None and applied.head.number > head.number:
        links = hub.links(head.number, applied.head.number)
        if links and walk(anchor(applied.fleet_id, head, links[0]), links[1:]).head == applied.head:
            return
    raise Corrupt(
        f"revision {head.number} was committed, but the hub shows another history without it",
        remedy="do not apply: compare `holdfast history` with a colleague's; `holdfast hub check` on the hub's machine",
        code="forked",
    )


def lines(receipts: Receipts) -> list[str]:
    found = []
    if receipts.accepted:
        count = len(receipts.accepted)
        is_all = count > NAMED_MAX and not (receipts.missing or receipts.not_joined or receipts.unheard)
        found.append(f"Confirmed by {f'all {count} nodes' if is_all else ', '.join(receipts.accepted)}.")
    if receipts.not_joined:
        names = ", ".join(receipts.not_joined)
        nothing = "" if receipts.accepted else "Nothing runs yet: "
        found.append(
            f"{nothing}{'no' if nothing else 'No'} machine has joined as {names}. "
            f"Next: holdfast node invite {receipts.not_joined[0]}"
        )
    if receipts.unheard:
        names = ", ".join(receipts.unheard)
        found.append(f"Not waiting for {names} (offline); it updates its DNS names when it reconnects")
    return found


def missing(receipts: Receipts, is_applied: str = "") -> Unreachable:
    names = ", ".join(receipts.missing)
    return Unreachable(
        f"{is_applied}not confirmed by {names}",
        remedy="nothing needs to be applied again; a node takes the revision when it checks in: holdfast node list",
        code="receipts_missing",
    )
