"""Settings of the hub in the applied revision: its key, probe time, number of nodes, overlay. Pure.

A damaged document is a finding of the boot; here it counts as a document without settings.
"""

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.model import duration
from holdfast.model.applied import Applied
from holdfast.model.cadence import NORMAL, Cadence
from holdfast.model.fleet import FleetDocument

PROBE_S_MIN, PROBE_S_MAX = 1.0, 60.0


def hub_key(applied: Applied) -> str:
    """Its public line; "" if the revision pins none."""
    document = _document(applied)
    return document.settings.hub_key if document is not None else ""


def nodes_max(applied: Applied, otherwise: int) -> int:
    document = _document(applied)
    return document.settings.nodes_max if document is not None else otherwise


def overlay(applied: Applied) -> str:
    document = _document(applied)
    return document.settings.overlay_cidr if document is not None else ""


def paced(pace: Cadence, applied: Applied | None) -> Cadence:
    """A probe may take as long as the fleet says (M-64); the pace of a lab stays as it is."""
    if pace != NORMAL or applied is None:
        return pace
    return replace(pace, probe_s=probe_s(applied, pace.probe_s))


def probe_s(applied: Applied, otherwise_s: float) -> float:
    """[timeouts] health_check (M-64), between PROBE_S_MIN and PROBE_S_MAX."""
    document = _document(applied)
    if document is None:
        return otherwise_s
    return min(max(duration.milliseconds(document.timeouts.health_check) / 1000, PROBE_S_MIN), PROBE_S_MAX)


def _document(applied: Applied) -> FleetDocument | None:
    try:
        return applied.fleet()
    except (HoldfastError, KeyError):
        return None
