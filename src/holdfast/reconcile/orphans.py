"""Decide who owns a container, and what to do with one that is not wanted. One table (C-05, T-15, D-17, I-35); pure.

Removing a container that a person started is worse than a line in a report, so the default only reports; data is never
touched here. A container that this agent made or adopted is not judged here: the rollout of its service decides.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from holdfast.model.container import LABEL_FLEET, LABEL_INFRASTRUCTURE, Container

# ours: labelled with this fleet. other: with another fleet, whose agent owns it. none: no agent made it.
Mark = Literal["ours", "other", "none", "infrastructure"]
Switch = Literal["report", "stop", "remove"]
Fate = Literal["keep", "report", "stop", "remove"]


class Facts(Struct, frozen=True):
    mark: Mark
    switch: Switch  # the node's `orphans`
    foreign: bool  # the node's `orphans_foreign`
    complete: bool  # the manifest of the current revision was read completely


def mark_of(container: Container, fleet: str) -> Mark:
    if container.labels.get(LABEL_INFRASTRUCTURE):
        return "infrastructure"
    whose = container.labels.get(LABEL_FLEET)
    if not whose:
        return "none"
    return "ours" if whose == fleet else "other"


def fate(facts: Facts) -> Fate:
    return next(answer(facts) for holds, answer in TABLE if holds(facts))


def _as_switched(facts: Facts) -> Fate:
    return facts.switch


def _always(fate: Fate) -> Callable[[Facts], Fate]:
    return lambda facts: fate


# First match. Every set of facts matches a row: the last row matches always.
TABLE: tuple[tuple[Callable[[Facts], bool], Callable[[Facts], Fate]], ...] = (
    (lambda it: it.mark == "infrastructure", _always("keep")),  # I-35, D-17: agent, proxy, tunnel, hub
    (lambda it: not it.complete, _always("keep")),  # absence is not proven
    (lambda it: it.mark == "ours", _as_switched),
    (lambda it: it.mark == "other", _always("report")),
    (lambda it: it.foreign, _as_switched),
    (lambda it: True, _always("report")),
)
