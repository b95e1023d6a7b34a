"""The stages of a pass (T-06): which service is handled in which stage, and why. Pure; the agent performs it.

Names and the proxy of a node are not part of a pass: they have keepers of their own.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Literal

from msgspec import Struct

from holdfast.model.container import Guest
from holdfast.reconcile import drift
from holdfast.reconcile.drift import Drift, Kind
from holdfast.reconcile.here import Here

Mode = Literal["converge", "observe"]


class Stage(IntEnum):
    ORPHANS = 1
    START = 2
    DEPLOY = 3
    REDEPLOY = 4
    ROUTES = 5


STAGE_OF: Mapping[Kind, Stage] = {
    "orphaned": Stage.ORPHANS,
    "wrong_state": Stage.START,
    "missing": Stage.DEPLOY,
    "image_mismatch": Stage.REDEPLOY,
    "spec_changed": Stage.REDEPLOY,
    "unsettled": Stage.REDEPLOY,
    "routes": Stage.ROUTES,
}


class Look(Struct, frozen=True):
    """One service, frozen for the pass (T-05): wanted and observed state. A target of None is to be retired."""

    service: str
    target: Guest | None
    here: Here


class Work(Struct, frozen=True):
    stage: Stage
    service: str
    kinds: tuple[Kind, ...]


class Agenda(Struct, frozen=True):
    findings: tuple[Drift, ...]
    work: tuple[Work, ...]


def work(looks: Iterable[Look], busy: Collection[str] = frozenset(), mode: Mode = "converge") -> Agenda:
    """By stage, then by name. A busy service is in progress already and is not started twice (C-35); `observe` changes
    nothing."""
    quiet = [look for look in looks if look.service not in busy]
    found = {look.service: drift.service(look.service, look.target, look.here) for look in quiet}
    findings = tuple(sorted(one for drifts in found.values() for one in drifts))
    if mode == "observe":
        return Agenda(findings, ())
    differing = [look for look in quiet if found[look.service]]
    items = [_work(look.service, found[look.service]) for look in differing if drift.due(look.target, look.here)]
    return Agenda(findings, tuple(sorted(items, key=lambda item: (item.stage, item.service))))


def _work(service: str, drifts: Collection[Drift]) -> Work:
    """One rollout corrects the whole service, in the stage of its gravest drift: nothing that serves until stage 4 is
    stopped in stage 1."""
    kinds = tuple(sorted({one.kind for one in drifts}, key=drift.KINDS.index))
    return Work(max(STAGE_OF[kind] for kind in kinds), service, kinds)
