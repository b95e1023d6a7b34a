"""Where data that moves here is put: beside, and then in the place of the service's data."""

from msgspec import Struct

from holdfast.agent.moves.books import Books
from holdfast.agent.moves.declared import Moving
from holdfast.agent.services.data.proofs import granted
from holdfast.agent.services.door import Vouch
from holdfast.errors import Conflict, Failed
from holdfast.gate import copies
from holdfast.model.proven_address import ProvenAddress
from holdfast.ports.storage import Receivable, Storage
from holdfast.reconcile import moves as rules
from holdfast.reconcile.moves import Into


class Place(Struct, frozen=True):
    path: str
    is_old: bool  # it has what an earlier pass brought


class Landing:
    def __init__(self, *, books: Books, storage: Storage, vouch: Vouch, node: str) -> None:
        self._books = books
        self._storage = storage
        self._vouch = vouch
        self._node = node

    def book(self, moving: Moving) -> Into:
        return rules.begun(self._books.into(moving.service), moving.epoch)

    def may_receive(self, moving: Moving) -> Receivable:
        """Refused here and now, if something is in the way at the end."""
        present = self._storage.directory(moving.service)
        is_in_the_way = present is not None and present.entries and not self.book(moving).placing
        if present is not None and is_in_the_way and not self._gives_way(moving):
            raise Conflict(
                f"this node has data of {moving.service} already ({present.path}), which a move does not touch",
                remedy=self._aside(moving),
                code="data_present",
            )
        return self.proof(moving.service, moving.epoch)

    def _aside(self, moving: Moving) -> str:
        service, backup = moving.service, moving.move.backup[:16]
        if backup:
            return f"to set it aside: holdfast migrate {service} --to {self._node} --force --backup {backup}"
        force = f"holdfast migrate {service} --to {self._node} --force"
        return f"holdfast migrate {service} --abort; to set it aside, then: {force}"

    def proof(self, service: str, epoch: int) -> Receivable:
        return granted(copies.may_receive(service, epoch, self._node, self._vouched(service)))

    def _gives_way(self, moving: Moving) -> bool:
        """What this node handed over itself is older than what comes back."""
        return moving.move.aside or moving.move.back

    def place(self, proof: Receivable, is_begun: bool) -> Place:
        """Blocks."""
        found = self._storage.resume(proof) if is_begun else None
        return Place(found, True) if found is not None else Place(self._storage.receive(proof), False)

    def drop(self, service: str, epoch: int) -> None:
        """What came of a move that is over. Blocks."""
        self._storage.drop_received(self.proof(service, epoch))

    def set_aside(self, moving: Moving) -> None:
        """Blocks."""
        present = self._storage.directory(moving.service)
        if present is not None and present.entries and self._gives_way(moving):
            allowed = granted(copies.may_move_aside(moving.service, self._node, self._vouched(moving.service)))
            self._storage.set_aside(moving.service, allowed)

    def put(self, moving: Moving, proof: Receivable) -> None:
        """Blocks."""
        present = self._storage.directory(moving.service)
        if self._storage.resume(proof) is not None:
            placeable = granted(copies.may_place(proof, present, self._node, self._vouched(moving.service)))
            self._storage.take_in(placeable, self.book(moving).drop)
        elif present is None:  # else it took its place before a crash
            raise Failed(
                f"the copy of {moving.service} that came from {moving.source} is gone",
                remedy=f"holdfast migrate {moving.service} --abort",
                code="not_found",
            )

    def _vouched(self, service: str) -> ProvenAddress:
        return self._vouch(f"service.{service}")
