"""Who stands in: the whole table of cases, and what holds in every one of them."""

from itertools import product

import pytest

from holdfast.hub.watchers.standby import Candidate, Home, Status, choose

STATUSES: tuple[Status, ...] = ("healthy", "silent", "unclear")


def nodes(**status: Status) -> list[Candidate]:
    return [Candidate(name, said) for name, said in status.items()]


SILENT, BACK = Home("silent"), Home("healthy")


@pytest.mark.parametrize(
    ("home", "current", "candidates", "wanted"),
    [
        (SILENT, "", nodes(w2="healthy", w3="healthy"), "w2"),
        (SILENT, "", nodes(w3="healthy", w2="healthy"), "w3"),
        (SILENT, "", nodes(w2="silent", w3="healthy"), "w3"),
        (SILENT, "", nodes(w2="unclear", w3="healthy"), "w3"),
        (SILENT, "", nodes(w2="silent"), ""),
        (SILENT, "", [], ""),
        (SILENT, "w3", nodes(w2="healthy", w3="healthy"), "w3"),  # sticky
        (SILENT, "w3", nodes(w2="healthy", w3="unclear"), "w3"),  # being probed is not gone
        (SILENT, "w3", nodes(w2="healthy", w3="silent"), "w2"),
        (SILENT, "w3", nodes(w2="silent", w3="silent"), "w3"),  # nobody is better
        (SILENT, "w9", nodes(w2="healthy"), "w2"),  # left the list
        (BACK, "w2", nodes(w2="healthy"), "w2"),  # back, but not proven
        (BACK, "w2", nodes(w2="silent", w3="healthy"), "w2"),
        (BACK, "", nodes(w2="healthy"), ""),
        (Home("healthy", proven=True), "w2", nodes(w2="healthy"), ""),
        (Home("unclear"), "w2", nodes(w2="healthy"), "w2"),
        (Home("unclear"), "", nodes(w2="healthy"), ""),
        (Home("silent", held=True), "", nodes(w2="healthy"), ""),  # stopped on purpose stays stopped
        (Home("silent", held=True), "w2", nodes(w2="healthy"), ""),
        (SILENT, "", [Candidate("w2", "healthy", drained=True), Candidate("w3", "healthy")], "w3"),
        (SILENT, "w2", [Candidate("w2", "healthy", drained=True), Candidate("w3", "healthy")], "w2"),
        # a hub that lost its memory goes on with what it finds
        (SILENT, "", [Candidate("w2", "healthy"), Candidate("w3", "healthy", runs=True)], "w3"),
        (Home("unclear"), "", [Candidate("w2", "healthy"), Candidate("w3", "healthy", runs=True)], "w3"),
        (BACK, "", [Candidate("w2", "healthy", runs=True)], ""),
    ],
)
def test_who_stands_in(home: Home, current: str, candidates: list[Candidate], wanted: str) -> None:
    assert choose(home, current, candidates) == wanted


def test_in_every_case_only_listed_nodes_are_named_and_deciding_again_changes_nothing() -> None:
    homes = [Home(status, *flags) for status, flags in product(STATUSES, product((False, True), repeat=2))]
    pairs = [
        [Candidate("w2", one, *first), Candidate("w3", two, *second)]
        for one, two in product(STATUSES, repeat=2)
        for first, second in product(product((False, True), repeat=2), repeat=2)
    ]
    for home, current, candidates in product(homes, ("", "w2", "w3", "w9"), pairs):
        chosen = choose(home, current, candidates)
        case = (home, current, candidates)
        assert chosen in ("", "w2", "w3"), case
        assert choose(home, chosen, candidates) == chosen, case
        if chosen not in ("", current):
            named = next(one for one in candidates if one.name == chosen)
            assert home.status != "healthy" and named.status != "silent" and not home.held, case
            assert named.runs or (home.status == "silent" and named.status == "healthy" and not named.drained), case
