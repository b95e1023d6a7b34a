"""What an operator signs stands for everything below it: `sign` takes a plan only on a revision he knows (I-12)."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.cli import main
from holdfast.cli.fleet import saved_plan
from holdfast.cli.fleet.seen_heads import Heads
from holdfast.hub.ledger import commit as committing
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from holdfast.planning.plan import plan
from holdfast.trust.approval import Approved
from holdfast.wiring.hubs import SystemHubs
from tests.fleets.build import ALICE, commit, mailbox, next_candidate, operator_signer, small_fleet
from tests.fleets.tools import Box

URL = "https://hub.test:9555"
CI, CI_SIGNER = operator_signer("ci", "apply")


def fleet(version: int = 1, nodes: tuple[str, ...] = ("w1", "w2")) -> Fleet:
    return small_fleet({"web": version}, nodes, operators=(ALICE, CI))


class Desk(Box):
    """Alice's machine: a fleet directory, her memory, and whatever hub she is told of."""

    def __init__(self, home: Path, hub: Revisions | None) -> None:
        super().__init__(home)
        self.met = hub
        self.hubs = cast(SystemHubs, Namespace(reader=lambda target: self.met))

    @property
    def heads(self) -> Heads:
        (self.home / "fleet").mkdir(exist_ok=True)
        return Heads(self.disk, str(self.home / "fleet"), str(self.home / "state"))

    def signs(self, base: Applied | None, *words: str, code: int = 0) -> dict[str, Any]:
        """Asked to put her name under a harmless change on top of `base`; the error, if she does not."""
        file = self.home / "change.plan"
        planned = plan(
            fleet(7, tuple(n[5:] for n in base.table.entries if n.startswith("node."))) if base else fleet(), base
        )
        file.write_bytes(saved_plan.save(planned, base))
        self.heads  # noqa: B018  the directory is there
        self.err.seek(0)
        self.err.truncate()
        argv = ["sign", str(file), "--yes", "--json", "--fleet", str(self.home / "fleet"), *words]
        assert main.run(argv, self) == code, self.err.getvalue()
        candidate = saved_plan.read(file.read_bytes()).saved.candidate
        assert candidate is not None and len(candidate.signatures) == (code == 0)
        found: dict[str, Any] = json.loads(self.err.getvalue()) if code else {}
        assert not code or found["remedy"]
        return found


def applied(hub: Revisions) -> Applied:
    found = hub.applied()
    assert found is not None
    return found


@pytest.fixture
def hub() -> Revisions:
    found = mailbox()
    commit(found, fleet())
    return found


def slipped_in(hub: Revisions) -> Applied:
    """A hub and an apply key together: a node is dropped, which only destroy may sign."""
    evil = next_candidate(fleet(1, ("w1",)), hub.applied(), CI_SIGNER)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(committing, "approve_keys", lambda keys, grade, *rest: Approved(grade, ()))
        hub.commit(evil)
    return applied(hub)


def test_a_plan_on_what_the_lock_or_this_machine_knows_is_signed_without_a_hub(tmp_path: Path, hub: Revisions) -> None:
    base = applied(hub)
    by_lock = Desk(tmp_path, None)
    by_lock.heads.moved(base.fleet_id, base.head)
    by_lock.signs(base)
    (tmp_path / "fleet" / "fleet.lock").unlink()
    Desk(tmp_path, None).signs(base)


def test_a_revision_nobody_was_entitled_to_make_gets_no_signature_on_top(tmp_path: Path, hub: Revisions) -> None:
    """She is shown a harmless change; below it lies what she never agreed to."""
    before = applied(hub)
    desk = Desk(tmp_path, hub)
    desk.heads.moved(before.fleet_id, before.head)
    evil = slipped_in(hub)
    assert desk.signs(evil, "--hub", URL, code=7)["code"] == "signature_invalid"
    desk.met = None
    assert desk.signs(evil, "--hub", URL, code=5)["code"] == "base_unknown"
    fresh = Desk(tmp_path / "elsewhere", hub)
    fresh.home.mkdir()
    assert fresh.signs(evil, "--hub", URL, code=7)["code"] == "signature_invalid"


def test_a_base_that_is_new_here_is_verified_with_the_hub(tmp_path: Path, hub: Revisions) -> None:
    desk = Desk(tmp_path, hub)
    desk.heads.moved(applied(hub).fleet_id, applied(hub).head)
    commit(hub, fleet(2))
    desk.signs(applied(hub), "--hub", URL)
    memory = desk.heads.memory(applied(hub).fleet_id)
    assert memory is not None and memory.head == applied(hub).head


def test_an_unknown_base_without_any_hub_is_refused_with_what_to_bring(tmp_path: Path, hub: Revisions) -> None:
    trouble = Desk(tmp_path, None).signs(applied(hub), code=5)
    assert trouble["code"] == "base_unknown" and "fleet.lock" in trouble["remedy"]


def test_a_plan_on_an_older_or_a_forked_base_is_refused(tmp_path: Path, hub: Revisions) -> None:
    old = applied(hub)
    desk = Desk(tmp_path, hub)
    commit(hub, fleet(2))
    desk.heads.moved(old.fleet_id, applied(hub).head)
    assert desk.signs(old, code=5)["code"] == "stale_plan"
    other = mailbox()
    commit(other, fleet())
    commit(other, fleet(3))
    assert desk.signs(applied(other), code=7)["code"] == "forked"
    commit(other, fleet(4))
    assert desk.signs(applied(other), "--hub", URL, code=5)["code"] == "stale_plan", "further, and not what the hub has"
    desk.met = other
    assert desk.signs(applied(other), "--hub", URL, code=7)["code"] == "forked"


def test_a_plan_of_another_fleet_is_refused_where_the_lock_says_so(tmp_path: Path, hub: Revisions) -> None:
    desk = Desk(tmp_path, hub)
    desk.heads.moved("9" * 64, applied(hub).head)
    assert desk.signs(applied(hub), code=7)["code"] == "other_fleet"


def test_a_first_revision_has_nothing_below_it(tmp_path: Path) -> None:
    Desk(tmp_path, None).signs(None)
