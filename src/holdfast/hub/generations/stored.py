"""The generation of a hub in its ledger, and that of a newer hub, once a node proved that there is one."""

from holdfast.ledger import keys
from holdfast.model import hub_generation
from holdfast.model.hub_generation import Generation, SignedGeneration
from holdfast.ports.ledger_store import Reading, Transaction


def own(store: Reading) -> SignedGeneration | None:
    """None: this hub was never restored."""
    return _read(store, keys.GENERATION)


def newer(store: Reading) -> Generation | None:
    found = _read(store, keys.SUPERSEDED)
    return hub_generation.decode(found.generation) if found is not None else None


def number_of(signed: SignedGeneration | None) -> int:
    return hub_generation.decode(signed.generation).number if signed is not None else 0


def writing(signed: SignedGeneration) -> Transaction:
    return Transaction(expect={}, put={keys.GENERATION: hub_generation.stored(signed)}, delete=(keys.SUPERSEDED,))


def ending(signed: SignedGeneration) -> Transaction:
    return Transaction(expect={}, put={keys.SUPERSEDED: hub_generation.stored(signed)})


def _read(store: Reading, key: str) -> SignedGeneration | None:
    record = store.get(key)
    return hub_generation.restored(record.value, "the ledger") if record is not None else None
