"""Make the one file of a hub: its state, sealed to the operators who may restore it, and to no machine."""

from collections.abc import Callable, Mapping

from msgspec import UNSET, Struct

from holdfast import __version__
from holdfast.errors import Conflict, Corrupt
from holdfast.hub.generations import stored
from holdfast.hub.ledger import reading
from holdfast.model import hub_file
from holdfast.model.fleet import Operator
from holdfast.model.hub_file import About, Part
from holdfast.model.ids import FLEET
from holdfast.model.trust import Trust, may_sign, outside_scope
from holdfast.ports.hub_files import HubFiles
from holdfast.ports.ledger_store import LedgerReader
from holdfast.ports.sealing import Sealer


class Made(Struct, frozen=True):
    about: About
    path: str
    size_bytes: int
    operators: tuple[str, ...]  # who can open it


def made(
    state_dir: str,
    name: Callable[[About], str],
    *,
    files: HubFiles,
    reader: Callable[[str], LedgerReader],
    hub_key: Callable[[str], str | None],
    sealer: Sealer,
    now_s: float,
) -> Made:
    """`name` answers the path of the file. `reader` and `hub_key` read a state directory: here the copy that goes into
    the file."""
    found: list[tuple[About, Trust]] = []

    def describe(folder: str, parts: Mapping[str, Part]) -> About:
        found.append(_described(reader(folder), hub_key(folder), parts, now_s))
        return found[-1][0]

    with files.packed(state_dir, describe) as archive:
        about, trust = found[-1]
        people = _readers(trust)
        path, recipients = name(about), sorted({*people.values()})
        size = files.stored(path, lambda into: sealer.seal_stream(archive, into, recipients))
    return Made(about, path, size, tuple(sorted(people)))


def _readers(trust: Trust) -> dict[str, str]:
    people = {o.name: str(o.recipient) for o in restorers(trust) if o.recipient is not UNSET}
    if not people:
        raise Conflict(
            "no operator can open a backup of this hub: none of grade destroy has a recipient in the applied revision",
            remedy='add recipient = "age1…" to your [[operators]] in fleet.toml (age-keygen creates one), then '
            "`holdfast apply`",
            code="no_recipients",
        )
    return people


def restorers(trust: Trust) -> list[Operator]:
    """Operators who may sign the restore. The file has the hub's key: no other operator needs it."""
    return [o for o in trust.operators if may_sign(trust, o, "destroy") and outside_scope(o, (FLEET,)) is None]


def _described(
    store: LedgerReader, hub_key: str | None, parts: Mapping[str, Part], now_s: float
) -> tuple[About, Trust]:
    try:
        applied = reading.load(store).applied
        generation = stored.own(store)
    finally:
        store.close()
    if applied is None:
        raise Conflict(
            "this hub has no revision yet, so there is nothing to keep",
            remedy="`holdfast apply` makes the first revision",
            code="nothing_applied",
        )
    if hub_key is None:
        raise Corrupt(
            "this hub has no key (hub.key): nodes would not talk to a hub that is restored without it",
            remedy="put hub.key back into the state directory; `holdfast hub run` names it",
            code="hub_key_missing",
        )
    number = stored.number_of(generation)
    about = About(
        hub_file.FORMAT, applied.fleet_id, applied.head, number, hub_key, int(now_s), __version__, dict(parts)
    )
    return about, applied.trust
