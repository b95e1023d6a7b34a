"""Which moves the revision in force has for this node."""

from collections.abc import Callable

from msgspec import UNSET, Struct

from holdfast.agent.keeper import Revision
from holdfast.errors import Failed
from holdfast.model.move import Move, Peer
from holdfast.model.revision import Entry


class Moving(Struct, frozen=True):
    """A service whose data goes from `source` to `target`; one of them is this node, `peer` is the other. A source
    that is dead is no peer."""

    service: str
    entry: Entry
    move: Move
    source: str
    target: str
    peer: Peer | None

    @property
    def epoch(self) -> int:
        return self.entry.epoch


def known_peer(moving: Moving, other: str) -> Peer:
    """`other`: the node at the other end."""
    if moving.peer is None:
        raise Failed(
            f"the revision has no key of {other} that was signed for the move of {moving.service}",
            remedy=f"`holdfast migrate {moving.service} --abort`; "
            "`holdfast migrate --help` shows how it moves with a backup",
            code="no_peer",
        )
    return moving.peer


class Declarations:
    """`is_bare`: the service was on another machine under this name in this epoch: nothing of that move comes here."""

    def __init__(self, is_bare: Callable[[str, int], bool]) -> None:
        self._is_bare = is_bare
        self.out: dict[str, Moving] = {}
        self.into: dict[str, Moving] = {}
        self.awaited: dict[str, Entry] = {}  # by name: services that wait for their data
        self.number = 0

    def follow(self, revision: Revision) -> None:
        manifest, node = revision.manifest, revision.node.name
        self.number = revision.number
        self.awaited = {address.partition(".")[2]: entry for address, entry in revision.awaited.items()}
        self.out = {
            moving.service: moving
            for address, entry in manifest.handover.items()
            if (moving := _moving(address, entry, manifest.peers.get(str(entry.node)))) is not None
        }
        self.into = {
            moving.service: moving
            for address, entry in {**manifest.services, **revision.awaited}.items()
            if entry.move is not UNSET
            and not entry.move.kept
            and (moving := _moving(address, entry, manifest.peers.get(entry.move.source))) is not None
            and (moving.source != node or entry.move.backup)
            and not self._is_bare(moving.service, moving.epoch)
            and moving.service not in self.out  # it came here once, and runs until it is handed over
        }


def _moving(address: str, entry: Entry, peer: Peer | None) -> Moving | None:
    if entry.move is UNSET:
        return None
    return Moving(address.partition(".")[2], entry, entry.move, entry.move.source, str(entry.node), peer)
