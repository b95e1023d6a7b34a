"""Sentences of the documents that a trial found to be false (N43): each is compared with the code that it is about."""

from pathlib import Path

from holdfast.agent.traffic.edges.lane import LOOK_S
from holdfast.cli.edges import edge_status
from holdfast.model.fleet import Component
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
