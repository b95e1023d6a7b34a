"""The DNS records of internal names: what to serve, what changes, and what may be deleted. Pure.

A record is deleted only if it is still what this node wrote, no service wants it, and its time is over. So a clean-up
after an old owner cannot remove the record of the new one (C-20, D-06), and the record of a service that left stays
until its edge has dropped the route (I-19).
"""

from collections.abc import Collection, Mapping

from msgspec import Struct

from holdfast.reconcile import drift

LINGER_S = 120.0  # the longest time of an undeploy: afterwards no edge waits for it any more

Records = Mapping[str, str]  # name → address


class Lingering(Struct, frozen=True):
    """A record that left the manifest and is still served."""

    address: str
    until_s: float


class Changes(Struct, frozen=True):
    """From what is served to `records`, which is everything that must be served."""

    records: dict[str, str]
    put: dict[str, str] = {}  # new, or with another address
    deleted: dict[str, str] = {}  # as this node wrote them
    strange: dict[str, str] = {}  # served, but neither wanted nor written by this node: no signed record

    def __bool__(self) -> bool:
        return bool(self.put or self.deleted or self.strange)


def digest(records: Records) -> str:
    """Over sorted records (T-11)."""
    return drift.digest(records.items())


def lingering(written: Records, wanted: Records, before: Mapping[str, Lingering], now_s: float) -> dict[str, Lingering]:
    """Records that were written and have left the manifest, each with its own end; without names that came back."""
    left = {name: address for name, address in written.items() if name not in wanted}
    return {name: _kept(before.get(name), address, now_s) for name, address in left.items()}


def withdrawn(before: Mapping[str, Lingering], names: Collection[str], now_s: float) -> dict[str, Lingering]:
    """The records that may go now. A wanted record is never among them."""
    return {name: Lingering(one.address, now_s) if name in names else one for name, one in before.items()}


def staying(before: Mapping[str, Lingering], now_s: float) -> dict[str, str]:
    return {name: one.address for name, one in before.items() if now_s < one.until_s}


def moved(wanted: Records, written: Records) -> dict[str, str]:
    """Names that were written with another address than they have now: name → the old address."""
    return {name: written[name] for name in wanted.keys() & written.keys() if written[name] != wanted[name]}


def changes(wanted: Records, served: Records, written: Records, staying: Records) -> Changes:
    records = {**staying, **wanted}
    gone = {name: address for name, address in served.items() if name not in records}
    return Changes(
        records=dict(sorted(records.items())),
        put={name: address for name, address in sorted(records.items()) if served.get(name) != address},
        deleted={name: address for name, address in sorted(gone.items()) if written.get(name) == address},
        strange={name: address for name, address in sorted(gone.items()) if written.get(name) != address},
    )


def _kept(known: Lingering | None, address: str, now_s: float) -> Lingering:
    return known if known is not None and known.address == address else Lingering(address, now_s + LINGER_S)
