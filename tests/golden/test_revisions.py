"""Signed and stored bytes of revisions, and the plan that shows them, are what they were."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from holdfast.cli.fleet import show_plan
from holdfast.ledger.boot_findings import content_findings
from holdfast.model import canonical
from holdfast.model.fleet import FleetDocument, Node, Service
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import decode_header, decode_table
from holdfast.model.trust import Trust
from tests.golden import masks, stored
from tests.golden.fleets import STAGES
from tests.golden.revisions import named, revisions


@pytest.mark.parametrize("fleet", STAGES)
def test_the_bytes_of_every_revision(fleet: str) -> None:
    sheet = stored.Sheet()
    seen: set[bytes] = set()
    for revision in revisions(fleet):
        sheet.title(f"{fleet} {revision.applied.head.number}: {revision.stage.name}")
        for name, content in named(revision).items():
            if content not in seen:  # what did not change is in an earlier revision
                sheet.add(name, content)
            seen.add(content)
        for number, signature in enumerate(revision.candidate.signatures, 1):
            sheet.add(f"signature {number}", signature)
    stored.check(f"revisions/{fleet}.txt", sheet.text())


@pytest.mark.parametrize("fleet", STAGES)
def test_the_plan_of_every_revision_as_json(fleet: str) -> None:
    documents = {
        revision.stage.name: masks.texts(msgspec.json.decode(msgspec.json.encode(show_plan.document(revision.plan))))
        for revision in revisions(fleet)
    }
    stored.check(f"plans/{fleet}.json", stored.pretty(documents))


@pytest.mark.parametrize("fleet", STAGES)
def test_stored_revisions_are_read_back_as_the_same_bytes(fleet: str) -> None:
    """The stored file is the input: readers of revisions must take what earlier releases wrote."""
    kinds: dict[str, type[Any]] = {"fleet": FleetDocument, "trust": Trust, "node": Node, "service": Service}
    lines = (stored.FILES / f"revisions/{fleet}.txt").read_text().splitlines()
    read = 0
    for name, content in pairwise(lines):
        word, _, about = name.partition("  sha256:")[0].partition(" ")
        text = content.strip().encode()
        if word == "header" and "  sha256:" in name:
            assert canonical.encode(decode_header(text)) == text
        elif word == "table" and "  sha256:" in name:
            assert canonical.encode(decode_table(text)) == text
        elif word == "manifest":
            assert canonical.encode(canonical.decode(text, NodeManifest, name)) == text
        elif word == "content" and about.partition(".")[0] in kinds:
            assert canonical.encode(canonical.decode(text, kinds[about.partition(".")[0]], name)) == text
        else:
            continue
        read += 1
    assert read > 5, "something was read"


@pytest.mark.parametrize("fleet", STAGES)
def test_a_ledger_with_these_bytes_is_complete(fleet: str) -> None:
    """So that the stored files cannot be of contents that no table names."""
    *_, last = revisions(fleet)
    held = [(digest, canonical.digest(content)) for digest, content in last.applied.contents.items()]
    assert content_findings(last.applied.table, last.applied.header.manifests, held) == []
