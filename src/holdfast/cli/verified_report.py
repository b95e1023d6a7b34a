"""What nodes say of themselves, checked here: a hub passes their words on, it does not vouch for them.

A pulse counts if the node's own key signed it, and that key is in the applied revision or proven by an operator's
invite. A report counts if such a pulse names its digest. What a hub withholds shows by its age.
"""

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.cli.identities import identities
from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.cadence import NORMAL, stretched
from holdfast.model.checkin import NodesAnswer, NodeView
from holdfast.model.fleet import Node
from holdfast.model.report import PULSE_NAMESPACE, Pulse, Report
from holdfast.trust import own_signature


class VerifiedReport(Struct, frozen=True):
    """`pulse` and `report` are None unless they are proven; then `age_s` is how old the node's word is."""

    view: NodeView
    pulse: Pulse | None = None
    report: Report | None = None
    age_s: float = 0.0
    key: str = ""  # proven
    doubt: str = ""  # why there is no proof
    window_s: float = NORMAL.window_s  # a living node has said something within it

    @property
    def verified(self) -> bool:
        """Signed by the node, and not the word of a better day."""
        return self.pulse is not None and not self.is_old

    @property
    def is_old(self) -> bool:
        """The hub calls the node healthy, and the node has not said a word for so long that it cannot know."""
        return self.pulse is not None and self.view.status == "healthy" and self.age_s > self.window_s

    @property
    def withheld_s(self) -> float:
        """So much older than the hub says is the newest word it shows; 0 if the two agree."""
        if self.pulse is None or self.view.age_s is None:
            return 0.0
        behind_s = self.age_s - self.view.age_s
        return behind_s if behind_s > self.window_s else 0.0

    @property
    def status(self) -> str:
        """That a node is well is believed to the node alone; that it is not, or unknown, also to the hub (M-47)."""
        return "unknown" if self.view.status == "healthy" and not self.verified else self.view.status

    @property
    def shown(self) -> str:
        """For people."""
        return "revoked" if self.view.revoked else self.status if self.view.joined else "not joined"


def hear(answer: NodesAnswer, applied: Applied, now_s: float) -> dict[str, VerifiedReport]:
    """Of every node that is applied, by name; a node the hub leaves out is there as unknown."""
    known = identities(answer, applied, now_s)
    views = {view.name: view for view in answer.nodes}
    window_s = stretched(NORMAL, len(applied.table.entries)).window_s  # there are no more nodes than entries
    found = {}
    for address in applied.table.entries:
        if address.startswith("node."):
            name = address[5:]
            view = views.get(name) or NodeView(name, roles_of(applied, name), "unknown")
            heard = _heard(view, known.keys.get(name, ""), applied, now_s)
            found[name] = replace(heard, window_s=window_s)
    return found


def unheard(applied: Applied) -> dict[str, VerifiedReport]:
    """An offline ledger has met no node."""
    names = [address[5:] for address in applied.table.entries if address.startswith("node.")]
    return {
        n: VerifiedReport(NodeView(n, roles_of(applied, n), "unknown"), doubt="a ledger directory hears no nodes")
        for n in names
    }


def roles_of(applied: Applied, name: str) -> tuple[str, ...]:
    node = node_of(applied, name)
    return tuple(node.roles) if node is not None else ()


def node_of(applied: Applied, name: str) -> Node | None:
    try:
        return applied.node(name)
    except (KeyError, HoldfastError):
        return None


def _heard(view: NodeView, key: str, applied: Applied, now_s: float) -> VerifiedReport:
    if view.pulse is None:
        return VerifiedReport(
            view, key=key, doubt="it has said nothing yet" if view.joined else "it has not joined yet"
        )
    if not key:
        return VerifiedReport(view, doubt="nothing proves which key it has")
    try:
        own_signature.verify(view.pulse.pulse, view.pulse.signature, PULSE_NAMESPACE, key)
        pulse = msgspec.json.decode(view.pulse.pulse, type=Pulse)
        if (pulse.fleet, pulse.node) != (applied.fleet_id, view.name):
            return VerifiedReport(view, key=key, doubt=f"its word speaks for {pulse.node!r}")
    except HoldfastError as trouble:
        return VerifiedReport(view, key=key, doubt=trouble.message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return VerifiedReport(view, key=key, doubt="its word cannot be read")
    return VerifiedReport(view, pulse, _reported(view, pulse), max(0.0, now_s - pulse.at_s), key)


def _reported(view: NodeView, pulse: Pulse) -> Report | None:
    if not view.report or canonical.digest(view.report) != pulse.report:
        return None
    try:
        report = msgspec.json.decode(view.report, type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return report if report.node == view.name else None


def recorded_key(applied: Applied, name: str) -> str:
    entry = applied.table.entries.get(f"node.{name}")
    return entry.identity.key if entry is not None and entry.identity is not UNSET else ""


def told(testimony: VerifiedReport) -> str:
    """For people: whose word it is and how old."""
    if testimony.is_old:
        return f"old: {testimony.view.name} signed its last word {aged(testimony.age_s)} ago"
    if testimony.verified:
        return f"verified by {testimony.view.name}, {aged(testimony.age_s)} ago"
    return f"unverified: {testimony.doubt}"


def aged(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"
