"""Files that are handed on between people, machines and releases have the bytes they had."""

import io
import json

import msgspec
from msgspec.structs import replace

from holdfast.adapters.audit_log import head_file
from holdfast.adapters.high_water import file as high_water
from holdfast.cli.fleet import saved_plan
from holdfast.cli.logs.log_lines import LogLines, Manner
from holdfast.cli.orders import order_file
from holdfast.cli.terminal import Terminal
from holdfast.model.audit import AuditHead
from holdfast.model.plan import Plan
from holdfast.model.revision import Head
from holdfast.model.stream import StreamedLine
from tests.fleets.orders import NOW_S, TRUST
from tests.golden import masks, stored
from tests.golden.revisions import Revision, revisions
from tests.golden.test_signed import order_of

DIGEST = "ab" * 32


def test_saved_plans() -> None:
    """Warnings are sentences, so they are left out; contents stand in revisions/, so their digests are enough."""
    sheet = stored.Sheet()
    before: Revision | None = None
    for revision in revisions("shop"):
        plan: Plan = replace(revision.plan, warnings=())
        content = saved_plan.save(plan, before.applied if before is not None else None)
        assert saved_plan.read(content).plan.candidate == plan.candidate
        sheet.title(revision.stage.name)
        sheet.add("format", msgspec.json.decode(content)["format"])
        sheet.add("form", json.dumps(masks.shape(_by_name(content))))
        sheet.add("names", json.dumps(_digests(content)))
        before = revision
    stored.check("handed_on/plans.txt", sheet.text())


def _by_name(content: bytes) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(content)
    for group in (found, found["candidate"]):
        assert isinstance(group, dict)
        for key in ("base_contents", "blobs"):
            if group.get(key):
                group[key] = {"<digest>": "base64"}
    return found


def _digests(content: bytes) -> list[str]:
    found = msgspec.json.decode(content)
    return sorted({*found["base_contents"], *found["candidate"]["blobs"]})


def test_small_files() -> None:
    sheet = stored.Sheet()
    sheet.add("order", order_file.write(order_file.of(order_of("restart", 7), TRUST)))
    sheet.add("high water of a hub", high_water.encode(Head(7, DIGEST)))
    mark = head_file.Mark(3, AuditHead(5, DIGEST), 1234, AuditHead(6, DIGEST), "0123-boot")
    sheet.add("head of an audit log", head_file.encode(mark))
    lines = LogLines(Terminal(io.StringIO(), io.StringIO(), io.StringIO()), Manner("web", as_json=True))
    sheet.add("line of a log with --json", lines.text("w1", StreamedLine("c1", "main", 0, NOW_S, True, "grüß\tGott")))
    stored.check("handed_on/files.txt", sheet.text())
