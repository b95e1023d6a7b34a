"""Keys of fleet.toml that grade apply may change, each with its reason; every other key needs grade destroy. Pure.

Deny by default: a key that a later release adds needs destroy until it has a row here (docs/adr/0031).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from holdfast.model import duration
from holdfast.model.fleet import Kept, Retain
from holdfast.model.plan import Demand
from holdfast.model.storage_target import keeps_fewer
from holdfast.planning.kinds.kind import destroy


class Harmless(Struct, frozen=True):
    reason: str
    words: str = "always"  # for the reference page
    when: Callable[[Any, Any], bool] = lambda before, after: True  # of the values before and after


_PEER_CALLS = ("off", "relay", "declared")  # from the least to the most


def _shorter(before: str, after: str) -> bool:
    return duration.milliseconds(after) <= duration.milliseconds(before)


def _longer(before: str, after: str) -> bool:
    return duration.milliseconds(after) >= duration.milliseconds(before)


def _outlives(before: str | UnsetType, after: str | UnsetType) -> bool:
    return after is UNSET or (before is not UNSET and _longer(before, after))


def _more(before: Kept | UnsetType, after: Kept | UnsetType) -> bool:
    return before is not UNSET and after is not UNSET and not keeps_fewer(before, after)


HARMLESS: Mapping[str, Harmless] = {
    "fleet.name": Harmless("only shown to people"),
    "fleet.nodes_max": Harmless("adding a node needs destroy anyway"),
    "fleet.parallel": Harmless("only the speed of changes that are signed already"),
    "fleet.removals_max": Harmless("an apply may remove less", "lowered", lambda old, new: new <= old),
    "backups.interval": Harmless("more backups are made", "made shorter", _shorter),
    "backups.drill_interval": Harmless("backups are proven more often", "made shorter", _shorter),
    "backups.retain": Harmless("more backups are kept", "raised", _more),
    "nodes.orphans": Harmless("the agent touches less", 'to "report"', lambda old, new: new == "report"),
    "nodes.orphans_foreign": Harmless("the agent touches less", "to false", lambda old, new: not new),
    "nodes.direct": Harmless("closes a way to the node", 'to "off"', lambda old, new: new == "off"),
    "nodes.link": Harmless("closes a listener of the node", 'to "poll"', lambda old, new: new == "poll"),
    "nodes.peer_calls": Harmless(
        "closes a way between nodes",
        "declared → relay → off",
        lambda old, new: _PEER_CALLS.index(new) <= _PEER_CALLS.index(old),
    ),
    "storage.policy.retain": Harmless("more backups are kept", "raised", _more),
    "provides.services": Harmless("fewer services may ask", "fewer", lambda old, new: set(new) <= set(old)),
    "provides.grace": Harmless("credentials stay longer", "made longer", _longer),
    "provides.ttl": Harmless("credentials stay longer", "made longer, or left out", _outlives),
    "policies": Harmless("a policy can only narrow what the compiled table allows", "added, or bound to more"),
}

_TABLES = {"settings": "fleet"}  # fields of the fleet document that fleet.toml names otherwise


def demands(prefix: str, before: Struct, after: Struct) -> Iterator[Demand]:
    """One demand that names every changed key without a row."""
    keys = [key for key, old, new in changed(prefix, before, after) if not is_harmless(key, old, new)]
    if keys:
        yield destroy(f"changes {', '.join(keys)}, which is not listed as harmless")


def is_harmless(key: str, before: Any, after: Any) -> bool:
    row = HARMLESS.get(key)
    return row is not None and row.when(before, after)


def changed(prefix: str, before: Struct, after: Struct) -> Iterator[tuple[str, Any, Any]]:
    """Every changed key as fleet.toml names it, with both values. A table that appears or vanishes is one key,
    and so is one that may be a number instead."""
    for field, spelled in zip(after.__struct_fields__, after.__struct_encode_fields__, strict=True):
        old, new = getattr(before, field), getattr(after, field)
        if old == new:
            continue
        key = f"{prefix}.{spelled}" if prefix else _TABLES.get(spelled, spelled)
        if isinstance(old, Struct) and isinstance(new, Struct) and not isinstance(new, Retain):
            yield from changed(key, old, new)
        else:
            yield key, old, new
