"""Applies that fault tests disturb: a place before, and the head it had and is going to have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.lab.product import Outcome, Place, new_place


@dataclass(frozen=True)
class Case:
    """A place before an apply, and the digests of its head before and after."""

    before: Place
    old: str
    new: str


def case(before: Place, old: str) -> Case:
    """Planning is deterministic, so an apply that nobody disturbs tells what the new head is going to be."""
    trial = before.copy(before.root.with_name("trial"))
    return Case(before, old, applied_digest(trial.run("apply", "--yes", "--json").ok()))


def applied_digest(outcome: Outcome) -> str:
    return str(outcome.json["applied"]["digest"])


def first_apply(room: Path) -> Case:
    return case(new_place(room / "p"), "")


def second_apply(room: Path) -> Case:
    place = new_place(room / "p")
    old = applied_digest(place.run("apply", "--yes", "--json").ok())
    place.replace("services/hello.toml", "port = 8080", "port = 8081")
    return case(place, old)
