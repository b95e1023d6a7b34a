"""What the signatures of the accepted revision say about an address: the only maker of `ProvenAddress`."""

import msgspec

from holdfast.agent.acceptance import approvals
from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.acceptance.catch_up import Held
from holdfast.agent.acceptance.manifest import entries
from holdfast.errors import HoldfastError, TryLater
from holdfast.model.proven_address import ProvenAddress
from holdfast.ports.acceptance import Acceptance


class Vouching:
    def __init__(self, accepting: Accepting, acceptance: Acceptance) -> None:
        self._accepting = accepting
        self._acceptance = acceptance
        self._known: dict[str, ProvenAddress] = {}
        self._changes = -1

    def of(self, address: str) -> ProvenAddress:
        """Computed once for each accepted revision."""
        if self._changes != self._accepting.changes:
            self._known, self._changes = {}, self._accepting.changes
        if address not in self._known:
            self._known[address] = self._vouched(address)
        return self._known[address]

    def _vouched(self, address: str) -> ProvenAddress:
        newest = self._accepting.newest
        if newest is None:
            raise TryLater("no revision is accepted yet, so no signature counts", remedy="holdfast status")
        if newest.approved is not None:
            return ProvenAddress(newest.head.number, address, frozenset(newest.approved.get(address, ())))
        return ProvenAddress(newest.head.number, address, self._in_force(address))

    def _in_force(self, address: str) -> frozenset[str]:
        """No approvals were noted yet, so all that is in force is approved; what cannot be read approves nothing."""
        entry = entries(self._accepting.in_force).get(address)
        if entry is None:
            return frozenset()
        try:
            return approvals.asked(address, entry, Held(self._acceptance, {}))
        except (HoldfastError, msgspec.DecodeError):
            return frozenset()
