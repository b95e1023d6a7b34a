"""Sentences of the documents that a trial found to be false (N43): each is compared with the code that it is about."""

from pathlib import Path

from holdfast.agent.traffic.edges.lane import LOOK_S
from holdfast.cli.edges import edge_status
from holdfast.cli.lab import faults
from holdfast.model.cadence import FAST
from holdfast.model.fleet import Component
from holdfast.reconcile.healthy import FAST_SETTLE_S
from holdfast.reconcile.wanted import _env

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return " ".join((DOCS / name).read_text().split())


def test_the_variables_that_are_added_are_the_ones_that_the_pages_name_n43() -> None:
    """They said that none is."""
    added = {name for name, _ in _env(Component("web", "hello:1"), "shop", 1)}
    assert added == {"HOLDFAST_SERVICE", "HOLDFAST_COMPONENT", "HOLDFAST_EPOCH"}
    for name in ("reference/fleet-directory.md", "guides/first-service.md"):
        assert all(variable in page(name) for variable in added) and "nothing is added" not in page(name)


def test_the_pause_between_two_looks_at_a_public_name_is_the_one_that_is_told_n43() -> None:
    """The page said 9 s, and the command "seen 10 min ago": that is when the certificate was first seen."""
    assert f"each public name of an edge every {LOOK_S:g} s" in page("reference/agent.md")
    assert f"(one is made every {LOOK_S:g} seconds)" in edge_status.DETAILS
    assert "first showed" in edge_status.DETAILS and "last showed" not in edge_status.DETAILS


def test_a_tag_is_not_called_a_digest_n43() -> None:
    """`plan` shows what the file says; the revision records the digest."""
    assert "shows the image as a digest" not in " ".join(
        map(page, ("guides/first-service.md", "guides/first-fleet.md"))
    )
    assert "the revision records that digest" in page("guides/first-service.md")


def test_a_services_directory_that_is_gone_is_called_a_plan_of_removals_n43() -> None:
    """It was said never to plan one; tests/lab/test_refusals.py shows that the confirmation holds it back."""
    text = page("security.md")
    assert "never plans a removal" not in text and "is a valid plan of removals, and is held back" in text


def test_a_rotated_secret_is_said_to_show_the_digests_of_sealed_files_n43() -> None:
    assert "the digests of the old and the new sealed file; it never shows a value" in page("guides/secrets.md")


def test_lab_fast_says_that_it_shortens_the_start_of_containers_n53() -> None:
    """A program that takes 20 s to start, and says so in `start_period`, fails in a fast lab; no page said why."""
    said = " ".join(faults._FAST.split())
    assert f"at most {FAST.start_s:g} s to become healthy, whatever `start_period` says" in said
    assert f"healthy after {FAST_SETTLE_S:g} s, whatever `settle` says" in said
    assert f"at most {FAST.start_s:g} s to become healthy, whatever its `start_period` says" in page("guides/lab.md")


def test_every_word_that_a_trial_asked_for_is_in_the_glossary() -> None:
    """Section I of the findings; N59: `Custody of their keys: sealed 3` of `status`."""
    text = (DOCS / "glossary.md").read_text()
    for word in ("retired", "parked, needs_operator", "held", "grade", "epoch", "report", "custody"):
        assert f"\n### {word}\n" in text, word
