"""checkpoint list|restore|delete, rollback --with-data, purge --now, retired restore: from what nodes signed, by orders
that say in their arguments what they do."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.model.deployment import deployment_of
from holdfast.model.fleet import Volume
from holdfast.model.order import SignedOrder
from holdfast.model.report import CheckpointState, RetiredData, UnlistedCheckpoints
from tests.fleets.build import ALICE, small_fleet, small_service
from tests.fleets.desks import Rig
from tests.fleets.directories import files
from tests.fleets.tools import HUB_KEY, Box
from tests.specs.cli.test_order_verbs import BOB, BOB_SIGNER, Worker, at_once, scene

DATA = Volume("book", "/data", "none")


class Reporting(Worker):
    """Sections that the shared report does not have."""

    def a_report(self, **said: Any) -> bytes:
        mine = ("checkpoints", "unlisted_checkpoints")
        known = {name: value for name, value in said.items() if name not in mine}
        whole = msgspec.json.decode(super().a_report(**known))
        return msgspec.json.encode(whole | {name: said.get(name, ()) for name in mine})


def web(version: int) -> Any:
    one = replace(small_service("web", version=version), node="w1")
    return replace(one, components=(replace(one.components[0], volumes=(DATA,)),))


def commits(rig: Rig, version: int) -> str:
    """The deployment that this revision brings."""
    rig.commit(small_fleet({"web": web(version)}, ("w1", "w2"), (ALICE, BOB)))
    applied = rig.hub.applied()
    assert applied is not None
    return deployment_of(applied.table.entries["service.web"])


def reports(worker: Worker, **said: Any) -> None:
    worker.__class__ = Reporting
    worker.said = said
    at_once(worker.follows())
    at_once(worker.says(heartbeat=True, **worker.word()))


def checkpoint(rig: Rig, **changed: Any) -> CheckpointState:
    """Revision 1 wrote it; revision 3 is applied and got the data next. Revision 2 is what wrote."""
    whole: dict[str, Any] = {
        "service": "web",
        "id": "4f0c2a9e-main-1700000000",
        "size_bytes": 3 * 1024**2,
        "made_s": rig.clock.now_s() - 60,
        "revision": 2,
        "images": ("registry.example.com/web:1@sha256:" + "1" * 64,),
        "before_revision": 3,
        "before_images": ("registry.example.com/web:2@sha256:" + "2" * 64,),
    }
    return CheckpointState(**(whole | changed))


def given(rig: Rig, box: Box) -> list[tuple[str, dict[str, str]]]:
    """Action and arguments of every order that was submitted, oldest first."""
    return list(box.given)  # type: ignore[attr-defined]


def noting(box: Box) -> None:
    """Keep the arguments of submitted orders."""
    box.given = []  # type: ignore[attr-defined]
    submit = box.wire.submit

    def noted(order: SignedOrder) -> str:
        action = msgspec.json.decode(order.order)["action"]
        box.given.append((action, msgspec.json.decode(order.arguments)))  # type: ignore[attr-defined]
        return str(submit(order))

    box.wire.submit = noted


def versions(rig: Rig, w1: Worker, **changed: Any) -> CheckpointState:
    commits(rig, 1)
    state = checkpoint(rig, **({"before": commits(rig, 2)} | changed))
    reports(w1, checkpoints=(state,))
    return state


def declared(box: Box) -> None:
    """The directory that the applied revision was made of: a rollback reads it."""
    fresh = box.fresh

    def written() -> str:
        directory = fresh()
        for path, content in files(small_fleet({"web": web(2)}, ("w1", "w2"), (ALICE, BOB))).items():
            file = Path(directory, path)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content.replace(b"[fleet]\n", b'[fleet]\nhub_key = "%s"\n' % HUB_KEY.encode()))
        return directory

    box.fresh = written  # type: ignore[method-assign]


def image(rig: Rig) -> str:
    applied = rig.hub.applied()
    assert applied is not None
    return str(
        msgspec.json.decode(applied.contents[applied.table.entries["service.web"].digest])["components"][0]["image"]
    )


# ---- list


def test_checkpoints_are_listed_with_what_they_are_copies_of_n12(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        assert box.shows("checkpoint", "list")["checkpoints"] == []
        state = versions(rig, w1, left_out=("sock",))
        text = box.does("checkpoint", "list", "web")
        assert state.id in text and "3.0 MiB" in text
        assert "data of revision 2 (web:1), made before revision 3 (web:2) got it; without sock" in text
        (row,) = box.shows("checkpoint", "list", "-n", "w1")["checkpoints"]
        assert (row["service"], row["node"], row["id"], row["revision"]) == ("web", "w1", state.id, 2)
        assert row["before"]["revision"] == 3 and row["left_out"] == ["sock"] and row["made"].endswith("Z")
        assert box.shows("checkpoint", "list", "other")["checkpoints"] == []
        assert box.shows("checkpoint", "list", "-n", "w2")["checkpoints"] == []
        assert box.fails(2, "checkpoint", "list", "-n", "w9")["code"] == "unknown_node"

    scene(tmp_path, story)


def test_checkpoints_that_a_report_has_no_room_for_are_counted_wherever_they_matter(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        state = versions(rig, w1)
        more = (UnlistedCheckpoints("web", 812, 5 * 1024**2), UnlistedCheckpoints("old", 2, 1024))
        old, purged = RetiredData("old", "/srv/old", 1, 1), RetiredData("old", "/srv/.purging", 1, 1, 0, "a" * 32, 9e9)
        reports(w1, checkpoints=(state,), unlisted_checkpoints=more, retired=(old, purged))
        box.does("checkpoint", "list")
        assert "web on w1 has 812 older checkpoints (5.0 MiB) besides" in box.err.getvalue()
        document = box.shows("checkpoint", "list", "web")
        assert document["unlisted"] == [{"node": "w1", "service": "web", "count": 812, "size_bytes": 5 * 1024**2}]
        assert box.shows("checkpoint", "list", "web", "-n", "w2")["unlisted"] == []
        assert "last checkpoint" not in box.does("checkpoint", "delete", "web", "4f0c", "--yes")
        assert [one["checkpoints"] for one in box.shows("retired")["retired"]] == [2, 0]
        assert "and 2 checkpoints (1.0 KiB) will be set aside" in box.does("purge", "old", "-n", "w1", "--yes")

    scene(tmp_path, story)


# ---- restore


def test_a_restore_orders_the_data_and_then_applies_the_version_that_wrote_it_n12(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        state = versions(rig, w1)
        now = image(rig)
        noting(box)
        assert box.fails(2, "checkpoint", "restore", "web", "4f0c")["code"] == "no_terminal"
        assert given(rig, box) == [] and rig.head.number == 3
        document = box.shows("checkpoint", "restore", "web", "4f0c", "--yes", "--detach")
        assert given(rig, box) == [("restore-checkpoint", {"checkpoint": state.id, "then": "hold"})]
        assert document["applied"]["number"] == 4 and image(rig) != now
        assert document["restored"] == [{"service": "web", "node": "w1", "checkpoint": state.id}]
        assert [change["address"] for change in document["changes"]] == ["service.web"]

    scene(tmp_path, story)


def test_a_restore_that_the_node_did_not_do_applies_nothing(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        versions(rig, w1)
        w1.outcome, w1.code, w1.message = "failed", "in_use", "these containers mount it: by-hand"
        assert box.fails(1, "checkpoint", "restore", "web", "4f0c", "--yes")["code"] == "in_use"
        assert rig.head.number == 3

    scene(tmp_path, story)


def test_data_alone_is_restored_without_a_revision(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        state = versions(rig, w1)
        noting(box)
        text = box.does("checkpoint", "restore", "web", state.id, "--data-only", "--yes")
        assert "service.web gets the data of checkpoint" in text and "becomes another checkpoint on w1" in text
        assert given(rig, box) == [("restore-checkpoint", {"checkpoint": state.id, "then": "start"})]
        assert rig.head.number == 3

    scene(tmp_path, story)


def test_a_restore_of_what_the_applied_version_wrote_needs_no_revision(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        state = versions(rig, w1, revision=3, before="")
        noting(box)
        assert "replaced by a restore" in box.does("checkpoint", "restore", "web", state.id, "--yes")
        assert given(rig, box) == [("restore-checkpoint", {"checkpoint": state.id, "then": "start"})]

    scene(tmp_path, story)


@pytest.mark.parametrize("revision", [0, 1, 99])
def test_without_the_revision_that_wrote_it_the_version_is_not_guessed(revision: int, tmp_path: Path) -> None:
    """Revision 1 has no such service in this story; 99 does not exist."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        rig.commit(small_fleet({"new": 1}, ("w1", "w2"), (ALICE, BOB)))
        state = checkpoint(rig, before=commits(rig, 2), revision=2 if revision == 1 else revision)
        reports(w1, checkpoints=(state,))
        trouble = box.fails(2, "checkpoint", "restore", "web", "4f0c", "--yes")
        assert trouble["code"] == "unknown_revision" and "--data-only" in trouble["remedy"]
        assert w1.did == []

    scene(tmp_path, story)


def test_a_checkpoint_must_be_named_so_that_one_is_meant(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        state = versions(rig, w1)
        trouble = box.fails(2, "checkpoint", "restore", "web", "none", "--yes")
        assert trouble["code"] == "not_found" and "holdfast checkpoint list web" in trouble["remedy"]
        reports(w1, checkpoints=(state, replace(state, id="4f0c2a9e-main-1700000009")))
        for verb in ("restore", "delete"):
            assert box.fails(5, "checkpoint", verb, "web", "4f0c", "--yes")["code"] == "ambiguous"
        reports(w1)
        reports(w2, checkpoints=(state,))
        trouble = box.fails(2, "checkpoint", "restore", "web", "4f0c", "--yes")
        assert trouble["code"] == "not_placed" and "applied on w1" in trouble["message"]
        assert w1.did == [] and w2.did == []

    scene(tmp_path, story)


def test_every_verb_that_overwrites_or_deletes_needs_grade_destroy(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        state = versions(rig, w1)
        aside = RetiredData("old", "/srv/.purging", 1, 1, 0, "a" * 32, 9e9)
        reports(w1, checkpoints=(state,), retired=(aside,))
        declared(box)
        box.by = BOB_SIGNER
        for words, argument in {
            ("checkpoint", "restore", "web", "4f0c"): f"checkpoint={state.id}",
            ("checkpoint", "delete", "web", "4f0c"): f"checkpoint={state.id}",
            ("rollback", "2", "--with-data"): f"checkpoint={state.id}",
            ("retired", "restore", "old"): f"purge={'a' * 32}",
            ("purge", "old", "-n", "w1", "--now"): "now=yes",
        }.items():
            trouble = box.fails(4, *words, "--yes")
            assert "grade destroy" in trouble["message"] and f"--arg {argument}" in trouble["remedy"], words
        assert w1.did == [] and rig.head.number == 3

    scene(tmp_path, story)


# ---- rollback


def test_a_rollback_with_data_restores_what_was_copied_when_the_version_of_now_got_it(tmp_path: Path) -> None:
    """Of several: the newest whole one that was made before exactly this deployment."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        state = versions(rig, w1)
        others = (
            replace(state, id="older", before="of-another", made_s=state.made_s - 9),
            replace(state, id="mixed", mixed=True, made_s=state.made_s + 9),
            replace(state, id="earlier-try", made_s=state.made_s - 5),
        )
        reports(w1, checkpoints=(*others, state))
        noting(box)
        declared(box)
        text = box.does("rollback", "2", "--with-data", "--yes", "--detach")
        assert given(rig, box) == [("restore-checkpoint", {"checkpoint": state.id, "then": "hold"})]
        assert "service.web gets the data of checkpoint" in text and rig.head.number == 4

    scene(tmp_path, story)


def test_a_rollback_with_data_that_no_node_has_is_refused(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        state = versions(rig, w1)
        declared(box)
        for kept in ((), (replace(state, before="of-another"),), (replace(state, mixed=True),)):
            reports(w1, checkpoints=kept)
            trouble = box.fails(5, "rollback", "2", "--with-data", "--yes")
            assert trouble["code"] == "no_checkpoint" and "service.web" in trouble["message"]
            assert "holdfast checkpoint list" in trouble["remedy"]
        assert w1.did == [] and rig.head.number == 3

    scene(tmp_path, story)


def test_no_way_back_sends_a_node_what_its_older_agent_cannot_read(tmp_path: Path) -> None:
    """Workers of these tests sign pulses without a format, as agents before that field."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        then = web(1)
        then = replace(then, components=(replace(then.components[0], user="1000"),))
        rig.commit(small_fleet({"web": then}, ("w1", "w2"), (ALICE, BOB)))
        state = checkpoint(rig, before=commits(rig, 2))
        reports(w1, checkpoints=(state,))
        declared(box)
        for words in (
            ("rollback", "2"),
            ("rollback", "2", "--with-data"),
            ("checkpoint", "restore", "web", "4f0c"),
        ):
            trouble = box.fails(5, *words, "--yes")
            assert trouble["code"] == "agent_too_old" and "upgrade the agent on w1" in trouble["remedy"], words
            assert "cannot read user of a component of service.web" in trouble["message"]
        assert w1.did == [] and rig.head.number == 3

    scene(tmp_path, story)


# ---- delete, purge, retired


def test_a_deletion_names_the_last_checkpoint_as_such(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        state = versions(rig, w1)
        noting(box)
        text = box.does("checkpoint", "delete", "web", "4f0c", "--yes")
        assert "It cannot be brought back. It is the last checkpoint of web on w1." in text
        assert given(rig, box) == [("delete-checkpoint", {"checkpoint": state.id})]

    scene(tmp_path, story)


def test_data_set_aside_whose_time_is_lost_is_listed_and_can_be_brought_back(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        reports(w1, retired=(RetiredData("old", "/srv/.purging", 1024, 1, 0, "a" * 32, 0.0, 1, 1024),), checkpoints=())
        text = box.does("retired")
        assert "purged; kept until you decide: the node lost its journal" in text and "1970" not in text
        assert "restore: holdfast retired restore old -n w1" in text
        noting(box)
        assert "kept until" not in box.does("retired", "restore", "old", "-n", "w1", "--yes")
        assert given(rig, box) == [("restore-retired", {"purge": "a" * 32})]

    scene(tmp_path, story)


def test_of_several_copies_that_of_the_removed_service_comes_back_n107(tmp_path: Path) -> None:
    """It was ambiguous, and the remedy named the oldest copy."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        old = RetiredData("old", "/srv/old", 1024, 1, epoch=2, state="superseded", target="w2")
        removed = RetiredData("old", "/srv/old", 1024, 1, epoch=3)
        reports(w1, retired=(old,))
        reports(w2, retired=(removed,))
        chosen = box.fails(2, "retired", "restore", "old", "--yes")["message"]
        assert chosen == "no revision is known in which service.old ran on w2 before it was removed"
        purged = replace(removed, purge="a" * 32, until_s=1.8e9)
        reports(w2, retired=(purged,))
        trouble = box.fails(5, "retired", "restore", "old", "--yes")
        assert "w1 (superseded, epoch 2), w2 (purged)" in trouble["message"]
        reports(w1, retired=(replace(old, epoch=1),))
        reports(w2, retired=(replace(old, state="fenced"),))
        trouble = box.fails(5, "retired", "restore", "old", "--yes")
        assert trouble["remedy"].startswith("name the node: holdfast retired restore old -n w2"), "the newest"

    scene(tmp_path, story)


def test_a_purge_says_how_much_and_its_order_says_now_n11(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        old = RetiredData("old", "/srv/old", 3 * 1024**2, 17)
        aside = RetiredData("old", "/srv/.purging", 1024, 1, 0, "a" * 32, 9e9, 1, 1024)
        copies = (checkpoint(rig, service="old"), checkpoint(rig, service="old", id="two"))
        reports(w1, retired=(old, aside), checkpoints=copies)
        noting(box)
        text = box.does("purge", "old", "-n", "w1", "--yes")
        assert text.startswith("/srv/old on w1: 3.0 MiB in 17 files, and 2 checkpoints (6.0 MiB) will be set aside")
        text = box.does("purge", "old", "-n", "w1", "--yes", "--now")
        much = "/srv/old on w1: 3.0 MiB in 17 files, and 2 checkpoints (6.0 MiB), and what 1 earlier purge set aside"
        assert text.startswith(f"{much} (2.0 KiB) will be destroyed. This cannot be undone.")
        assert given(rig, box) == [("purge", {}), ("purge", {"now": "yes"})]

    scene(tmp_path, story)


def test_purged_data_is_listed_with_its_time_and_its_way_back_n11(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        first = RetiredData("old", "/srv/.purging", 1024, 1, 0, "a" * 32, 1.7e9, 2, 2048)
        second = replace(first, purge="b" * 32, until_s=1.8e9)
        reports(w1, retired=(second, first))
        text = box.does("retired")
        assert "kept until 2023-11-14T22:13:20Z" in text and "2 checkpoints" in text
        assert "restore: holdfast retired restore old -n w1" in text
        rows = box.shows("retired")["retired"]
        assert [row["until"] for row in rows] == ["2027-01-15T08:00:00Z", "2023-11-14T22:13:20Z"]
        noting(box)
        box.does("retired", "restore", "old", "--yes")
        assert given(rig, box) == [("restore-retired", {"purge": "b" * 32})], "the newest"
        reports(w2, retired=(first,))
        trouble = box.fails(5, "retired", "restore", "old", "--yes")
        assert trouble["code"] == "ambiguous" and "holdfast retired restore old -n w1" in trouble["remedy"]
        assert box.fails(2, "retired", "restore", "none", "--yes")["code"] == "not_found"

    scene(tmp_path, story)
