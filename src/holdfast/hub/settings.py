"""Settings of the hub in the applied revision: its pinned key and the time limit of a probe. Pure.

A damaged document is a finding of the boot; here it counts as a document without these settings.
"""

from holdfast.errors import HoldfastError
from holdfast.model import duration
from holdfast.model.applied import Applied
from holdfast.model.fleet import FleetDocument

PROBE_S_MIN, PROBE_S_MAX = 1.0, 60.0


def hub_key(applied: Applied) -> str:
    """Its public line; "" if nothing pins one."""
    document = _document(applied)
    return document.settings.hub_key if document is not None else ""


def probe_s(applied: Applied, otherwise_s: float) -> float:
    """[timeouts] health_check (M-64), within what still makes sense: nobody is missed sooner or much later for it."""
    document = _document(applied)
    if document is None:
        return otherwise_s
    return min(max(duration.milliseconds(document.timeouts.health_check) / 1000, PROBE_S_MIN), PROBE_S_MAX)


def _document(applied: Applied) -> FleetDocument | None:
    try:
        return applied.fleet()
    except (HoldfastError, KeyError):
        return None
