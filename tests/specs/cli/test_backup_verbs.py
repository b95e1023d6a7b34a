"""backup, backup list|show|verify|export, restore, drill: from what nodes signed and the hub stores; their exits."""

import asyncio
import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization as form
from msgspec.structs import replace

from holdfast.adapters.archive.process import ProcessArchiver
from holdfast.adapters.sealing.age import AgeSealer, from_ssh_key
from holdfast.adapters.sealing.identities import AgeIdentities
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.waiting.report_poll import ReportPoll
from holdfast.model import archive_key, backup_key
from holdfast.model.archive import Header, Purpose
from holdfast.model.archive_key import ArchiveKey
from holdfast.model.backup import Receipt, Stored
from holdfast.model.backup_report import BackupMade, BackupState, Copies
from holdfast.model.drill import DrillResult, DrillState
from holdfast.model.fleet import Fleet, Node, Role, Volume
from holdfast.ports.archive import PackJob
from holdfast.ports.backup_target import StoredObject
from holdfast.ports.sealing import CannotOpen
from holdfast.trust import receipts
from tests.fleets.build import ALICE, small_fleet, small_service
from tests.fleets.desks import Rig, key_of
from tests.fleets.tools import Box
from tests.specs.cli.test_checkpoint_verbs import given, noting
from tests.specs.cli.test_order_verbs import BOB, Worker, at_once, scene

T = TypeVar("T")
NOW_S = 1_700_000_000
PACK = b"a sealed pack"
RESTS = 5  # looks of a command before a node has done what an order asked for


class Reporting(Worker):
    """Says what `then` makes of the order that it got last."""

    then: Callable[[str], dict[str, Any]] | None = None
    rests = 0

    def a_report(self, **said: Any) -> bytes:
        mine = ("backups", "drills")
        known = {name: value for name, value in said.items() if name not in mine}
        whole = msgspec.json.decode(super().a_report(**known))
        return msgspec.json.encode(whole | {name: said.get(name, ()) for name in mine})

    def works(self) -> None:
        """The order is done at once; what it asked for takes a while."""
        known = len(self.results)
        super().works()
        self.rests = RESTS if len(self.results) > known else self.rests - 1
        if self.then is not None and self.results and not self.rests:
            self.said = self.then(list(self.results)[-1])
            at_once(self.says(**self.word()))


def made(order: str = "", sequence: int = 1, **changed: Any) -> BackupMade:
    whole = BackupMade("a" * 16, "a" * 64, sequence, NOW_S, 1.5, "order", 3, 300, 100, 50, "hub", order)
    return replace(whole, **changed)


def declared(*roles: Role, services: tuple[str, ...] = ("web",)) -> Fleet:
    """web has a volume, and runs on w1, which may have more roles."""
    nodes = {name: Node(name, ("worker",), key=key_of(name).line) for name in ("w1", "w2")}
    nodes["w1"] = replace(nodes["w1"], roles=("worker", *roles))
    one = small_service("web")
    main = replace(one.components[0], volumes=(Volume("book", "/book", "backup"),))
    web = replace(one, components=(main,), node="w1")
    return replace(small_fleet(dict.fromkeys(services, web), operators=(ALICE, BOB)), nodes=nodes)


class Desk:
    """The hub with a store of backups in memory, and two nodes; w1 runs web."""

    def __init__(self, rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        self.rig, self.box = rig, box
        self.objects: dict[str, bytes] = {}
        box.wire.backup_objects = self._listed
        box.wire.backup_object = self.objects.get
        rig.commit(declared())
        for worker in (w1, w2):
            worker.__class__ = Reporting
            at_once(worker.follows())
        assert isinstance(w1, Reporting)
        self.w1 = w1
        self.reports(backups=(BackupState("web", last=made()),))

    def _listed(self, prefix: str) -> list[StoredObject]:
        return [StoredObject(key, len(text)) for key, text in sorted(self.objects.items()) if key.startswith(prefix)]

    def reports(self, **said: Any) -> None:
        self.w1.said = said
        at_once(self.w1.says(heartbeat=True, **self.w1.word()))

    def stored(
        self, sequence: int, made_s: int = NOW_S, node: str = "w1", by: str = "", manifest: bytes = b"", **more: Any
    ) -> str:
        """The digest of the receipt. `by`: the node that signs it."""
        manifest = manifest or b"manifest %d" % sequence
        packs = tuple(more.pop("packs", (PACK,)))
        values = {"service": "web", "generation": 1, **more}
        whole = Receipt(
            1, self.rig.fleet_id, values.pop("service"), node, sequence, 1, values.pop("generation"), made_s, "order",
            _stored(manifest), tuple(map(_stored, packs)), 3, 300, **values,
        )  # fmt: skip
        sealed = [] if self._has_key(whole.generation) else [("keys", b"sealed key %d" % whole.generation)]
        for kind, content in (*sealed, ("manifests", manifest), *(("packs", pack) for pack in packs)):
            key = backup_key.sealed(whole.fleet, whole.service, whole.generation, kind, content)  # type: ignore[arg-type]
            self.objects[key] = content
        content = receipts.sign(key_of(by or node), whole)
        self.objects[backup_key.receipt(whole.fleet, whole.service, sequence, content)] = content
        return sha256(content).hexdigest()

    def _has_key(self, generation: int) -> bool:
        return any(f"/g{generation}/keys/" in key for key in self.objects)

    def key(self, content: bytes) -> str:
        (found,) = [key for key in self.objects if key.endswith(sha256(content).hexdigest())]
        return found


def _stored(content: bytes) -> Stored:
    return Stored(sha256(content).hexdigest(), len(content))


def play(home: Path, story: Callable[[Desk], None]) -> None:
    scene(home, lambda rig, box, w1, w2: story(Desk(rig, box, w1, w2)))


def apart(work: Callable[[], T]) -> T:
    """Without the event loop of this thread."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


# ---- backup


def test_backup_waits_for_the_backup_of_its_own_order(tmp_path: Path) -> None:
    def story(desk: Desk) -> None:
        desk.w1.then = lambda order: {"backups": (BackupState("web", last=made(order, 2, id="b" * 16)),)}
        document = desk.box.shows("backup", "web", "--wait")
        assert (document["id"], document["node"], document["new_bytes"]) == ("b" * 16, "w1", 50)
        assert "Backup bbbbbbbbbbbbbbbb of web: 3 files" in desk.box.does("backup", "web", "--wait")

    play(tmp_path, story)


def test_a_backup_that_fails_is_exit_1_and_one_that_is_not_over_exit_6(tmp_path: Path) -> None:
    def story(desk: Desk) -> None:
        state = BackupState("web", last=made("an older order"), trouble="no space is left")
        desk.w1.then = lambda order: {"backups": (replace(state, failed_by=(order,)),)}
        trouble = desk.box.fails(1, "backup", "web", "--wait")
        assert trouble["code"] == "backup_failed" and "no space is left" in trouble["message"]
        desk.w1.then = lambda order: {"backups": (replace(state, running_s=NOW_S),)}
        assert desk.box.fails(6, "backup", "web", "--wait", "--timeout", "30s")["code"] == "backup_under_way"
        desk.reports()
        assert desk.box.fails(2, "backup", "web")["code"] == "not_backed_up"
        assert desk.box.fails(2, "backup", "other")["code"] == "not_applied"

    play(tmp_path, story)


# ---- list, show, verify


def test_a_receipt_that_its_node_did_not_sign_is_unproven_and_chosen_by_no_command(tmp_path: Path) -> None:
    def story(desk: Desk) -> None:
        good = desk.stored(1)
        forged, strange = desk.stored(2, by="w2"), desk.stored(3, node="w9")
        damaged = desk.stored(4)
        key = next(key for key in desk.objects if damaged in key)
        desk.objects[key] = desk.objects[key][:-2]
        document = desk.box.shows("backup", "list", "web")
        assert [one["digest"] for one in document["backups"]] == [good]
        assert [one["key"][-64:] for one in document["unproven"]] == [forged, strange, damaged]
        text = desk.box.does("backup", "list")
        assert good[:16] in text and forged[:16] not in text and desk.box.err.getvalue().count("Unproven: ") == 3
        assert desk.box.shows("backup", "show", "web")["digest"] == good
        for id in (forged, strange, damaged):
            assert desk.box.fails(2, "backup", "show", "web", id[:16])["code"] == "not_found"

    play(tmp_path, story)


def test_a_backup_is_named_by_the_beginning_of_its_id_and_of_no_other(tmp_path: Path) -> None:
    def story(desk: Desk) -> None:
        none = desk.box.fails(2, "backup", "show", "web")
        assert none["code"] == "not_found" and "holdfast backup web --wait" in none["remedy"]
        assert "proven" not in none["message"], "that word means a drill (N52)"
        for words in (("backup", "show"), ("backup", "verify"), ("restore",)):
            other = desk.box.fails(2, *words, "wob")
            assert other["code"] == "not_applied" and "did you mean web?" in other["remedy"], (
                "N80: no service to back up"
            )
        digests = [desk.stored(number) for number in range(1, 18)]  # two of them begin alike
        assert desk.box.shows("backup", "show", "web")["sequence"] == 17, "the newest"
        assert desk.box.shows("backup", "show", "web", digests[4][:12])["sequence"] == 5
        twice = next(one[0] for one in digests if sum(other[0] == one[0] for other in digests) > 1)
        assert desk.box.fails(5, "backup", "show", "web", twice)["code"] == "ambiguous"

    play(tmp_path, story)


@pytest.mark.parametrize("damage", ["rotten", "missing"])
def test_verify_is_exit_7_if_no_whole_key_is_there_without_which_nothing_can_be_read(
    damage: str, tmp_path: Path
) -> None:
    def story(desk: Desk) -> None:
        desk.stored(1)
        (key,) = [key for key in desk.objects if "/keys/" in key]
        if damage == "rotten":
            desk.objects[key] = b"rotten"
        else:
            del desk.objects[key]
        trouble = desk.box.fails(7, "backup", "verify", "web")
        assert trouble["code"] == "backup_damaged" and "key" in trouble["message"]
        again = b"addressed again"
        desk.objects[backup_key.sealed(desk.rig.fleet_id, "web", 1, "keys", again)] = again
        assert desk.box.shows("backup", "verify", "web")["flaws"] == [], "one whole key opens it"

    play(tmp_path, story)


@pytest.mark.parametrize("damage", ["", "bytes", "size", "missing", "manifest"])
def test_verify_reads_every_object_and_is_exit_7_if_one_is_not_right(damage: str, tmp_path: Path) -> None:
    def story(desk: Desk) -> None:
        desk.stored(1, manifest=b"the manifest", packs=(PACK, b"another"))
        key = desk.key(b"the manifest" if damage == "manifest" else PACK)
        if damage == "missing":
            del desk.objects[key]
        elif damage == "size":  # the receipt says another one
            del desk.objects[next(key for key in desk.objects if "/receipts/" in key)]
            whole = Receipt(
                1, desk.rig.fleet_id, "web", "w1", 1, 1, 1, NOW_S, "order", _stored(b"the manifest"),
                (Stored(sha256(PACK).hexdigest(), 99),), 3, 300,
            )  # fmt: skip
            content = receipts.sign(key_of("w1"), whole)
            desk.objects[backup_key.receipt(whole.fleet, "web", 1, content)] = content
        elif damage:
            desk.objects[key] = b"rotten" + desk.objects[key][6:]
        if not damage:
            assert desk.box.shows("backup", "verify", "web") | {"id": ""} == {
                "id": "", "objects": 3, "bytes": 32, "flaws": []
            }  # fmt: skip
            return
        trouble = desk.box.fails(7, "backup", "verify", "web")
        assert trouble["code"] == "backup_damaged" and key in trouble["message"]
        assert trouble["remedy"].startswith("holdfast backup web --wait")

    play(tmp_path, story)


def test_copies_are_shown_and_those_on_the_machine_of_the_data_count_as_none(tmp_path: Path) -> None:
    def story(desk: Desk) -> None:
        desk.stored(1)
        desk.stored(2, node="w2")
        at = {
            "hub": Copies("hub", held=(1,)),
            "box": Copies("box", held=(1, 2), same_machine=True),
            "nas": Copies("nas", held=(2,)),
        }

        def elsewhere(*names: str) -> tuple[list[str], list[str]]:
            """Volumes without a copy elsewhere; services whose only copy the hub has."""
            desk.reports(backups=(BackupState("web", last=made(), copies=tuple(at[name] for name in names)),))
            found = desk.box.shows("status")
            return [one["why"] for one in found["unprotected"]], found["only_copy_at_hub"]

        assert elsewhere() == ([], ["web"]), "the hub is the only target"
        assert elsewhere("hub", "box") == ([], ["web"]), "a copy on the same machine counts as none"
        assert elsewhere("box") == (["same_machine"], []) == elsewhere("box", "nas"), "nor does an older one"
        desk.rig.commit(declared("hub"))
        assert elsewhere() == (["same_machine"], []), "the hub itself is on the machine of the data"
        own, of_w2 = desk.box.shows("backup", "list")["backups"]
        assert (own["copies"][0]["same_machine"], of_w2["copies"][0]["same_machine"]) == (True, False)
        desk.rig.commit(declared())
        desk.reports(backups=(BackupState("web", last=made(), copies=tuple(at.values())),))
        first, second = desk.box.shows("backup", "list")["backups"]
        assert first["copies"] == [
            {"target": "hub", "same_machine": False},
            {"target": "box", "same_machine": True},
        ]
        assert second["copies"] == [{"target": "hub", "same_machine": False}], "w1 reports nothing about those of w2"
        assert "hub, box (same machine)" in desk.box.does("backup", "list")

    play(tmp_path, story)


# ---- export


def packed(desk: Desk, home: Path) -> tuple[str, bytes]:
    """A real backup, which the operator can open; the digest of its receipt, and its only file."""
    identities = AgeIdentities()
    me, pair = identities.fresh(), identities.fresh()
    path = home / ".config" / "holdfast" / "identity.age"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(me.identity + "\n")
    purpose = Purpose(desk.rig.fleet_id, "web", 1)
    key = AgeSealer().seal(archive_key.written(ArchiveKey(purpose, pair.identity)), [me.recipient])
    desk.objects[backup_key.sealed(purpose.fleet, "web", 1, "keys", key)] = key
    (home / "data").mkdir()
    (home / "data" / "page").write_bytes(b"a page")
    contents: list[bytes] = []

    async def ship(digest: str, content: bytes) -> None:
        contents.append(content)

    job = PackJob(
        top=str(home / "data"), home=str(home / "archiver"), recipient=pair.recipient,
        header=Header(purpose=purpose, node="w1", sequence=1),
    )  # fmt: skip
    done = apart(lambda: asyncio.run(ProcessArchiver().pack(job, ship, lambda progress: None)))
    return desk.stored(1, manifest=done.manifest, packs=contents), b"a page"


@pytest.mark.parametrize("has_links", [True, False], ids=["", "FAT"])
def test_an_export_is_written_over_no_file_also_not_over_one_that_comes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", _without_links)

    def story(desk: Desk) -> None:
        packed(desk, tmp_path)
        file = tmp_path / "web.tar.zst"
        document = apart(lambda: desk.box.shows("backup", "export", "web", str(file)))
        assert document["files"] == 1 and document["file_bytes"] == file.stat().st_size
        before = file.read_bytes()
        assert apart(lambda: desk.box.fails(5, "backup", "export", "web", str(file)))["code"] == "exists"
        assert file.read_bytes() == before
        other = tmp_path / "other.tar.zst"

        def get(key: str) -> bytes | None:
            if "/packs/" in key:
                other.write_bytes(b"of another program")
            return desk.objects.get(key)

        desk.box.wire.backup_object = get
        assert apart(lambda: desk.box.fails(1, "backup", "export", "web", str(other)))["code"] == "export_unwritable"
        assert other.read_bytes() == b"of another program"
        assert not list(tmp_path.glob(".holdfast-export-*"))

    play(tmp_path, story)


def _without_links(source: str, name: str) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), source, None, name)


@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_key_that_is_damaged_hides_no_other_one(others: int, tmp_path: Path) -> None:
    """It is stored once for each time that it was addressed."""

    def story(desk: Desk) -> None:
        packed(desk, tmp_path)
        (whole,) = [key for key in desk.objects if "/keys/" in key]
        above = whole.rpartition("/")[0]
        for number in range(others):
            desk.objects[f"{above}/{str(number) * 64}"] = b"rotten"
        file = tmp_path / "web.tar.zst"
        assert apart(lambda: desk.box.shows("backup", "export", "web", str(file)))["files"] == 1
        del desk.objects[whole]
        trouble = apart(lambda: desk.box.fails(7, "backup", "export", "web", f"{file}-2"))
        assert "missing" in trouble["message"] if not others else trouble["code"] == "object_digest"

    play(tmp_path, story)


def test_an_export_of_a_damaged_backup_is_exit_7_and_leaves_no_file(tmp_path: Path) -> None:
    def story(desk: Desk) -> None:
        packed(desk, tmp_path)
        (pack,) = [key for key in desk.objects if "/packs/" in key]
        desk.objects[pack] = desk.objects[pack][:-1] + b"x"
        file = tmp_path / "web.tar.zst"
        apart(lambda: desk.box.fails(7, "backup", "export", "web", str(file)))
        assert not file.exists()

    play(tmp_path, story)


# ---- restore


def ssh_file(node: str) -> bytes:
    """The private key of a node, as its file."""
    whole = key_of(node)._private.private_bytes
    return whole(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())


def test_a_restore_into_place_asks_and_orders_the_backup_that_was_chosen(tmp_path: Path) -> None:
    def story(desk: Desk) -> None:
        old, new = desk.stored(1, NOW_S), desk.stored(2, NOW_S + 100)
        noting(desk.box)
        assert desk.box.fails(2, "restore", "web")["code"] == "no_terminal"
        at = rfc3339(NOW_S + 99)
        assert desk.box.fails(2, "restore", "web", "--backup", old[:9], "--at", at, "--yes")["code"] == "usage"
        assert desk.box.fails(2, "restore", "web", "--at", rfc3339(NOW_S - 1), "--yes")["code"] == "not_found"
        assert given(desk.rig, desk.box) == [], "nothing is ordered before it is certain"
        desk.box.does("restore", "web", "--yes")
        desk.box.does("restore", "web", "--at", at, "--yes")
        desk.box.does("restore", "web", "--backup", old[:9], "--beside")
        assert given(desk.rig, desk.box) == [
            ("restore", {"backup": new}),
            ("restore", {"backup": old}),
            ("fetch-backup", {"backup": old}),
        ]

    play(tmp_path, story)


def test_the_data_of_an_applied_service_is_restored_where_it_runs(tmp_path: Path) -> None:
    def story(desk: Desk) -> None:
        desk.stored(1)
        noting(desk.box)
        assert desk.box.fails(2, "restore", "web", "--to", "w2", "--yes")["code"] == "not_placed"
        desk.box.does("restore", "web", "--to", "w1", "--yes")
        assert [action for action, _ in given(desk.rig, desk.box)] == ["restore"]

    play(tmp_path, story)


def test_another_node_gets_the_key_of_the_backup_sealed_to_it(tmp_path: Path) -> None:
    def story(desk: Desk) -> None:
        digest, _ = packed(desk, tmp_path)
        desk.rig.commit(declared(services=()))
        noting(desk.box)
        desk.box.does("restore", "web", "--to", "w2", "--yes", "--detach")
        ((action, arguments),) = given(desk.rig, desk.box)
        assert action == "restore" and arguments["backup"] == digest
        opened = from_ssh_key(ssh_file("w2"), "w2").open(bytes.fromhex(arguments["key"]))
        purpose = Purpose(desk.rig.fleet_id, "web", 1)
        assert archive_key.read(opened, purpose).purpose == purpose
        with pytest.raises(CannotOpen):
            from_ssh_key(ssh_file("w1"), "w1").open(bytes.fromhex(arguments["key"]))

    play(tmp_path, story)


# ---- drill


@pytest.mark.parametrize(
    ("verdict", "code", "said"),
    [("verified", 0, ""), ("failed", 1, "drill_failed"), ("inconclusive", 6, "drill_inconclusive")],
)
def test_a_drill_waits_for_its_own_verdict_which_is_its_exit_code(
    verdict: Any, code: int, said: str, tmp_path: Path
) -> None:
    def story(desk: Desk) -> None:
        older = DrillResult("verified" if code else "failed", NOW_S, 1.0, "order", "a" * 64, reason="it is older")
        desk.reports(backups=(BackupState("web", last=made()),), drills=(DrillState("web", last=older),))
        result = DrillResult(
            verdict,
            NOW_S,
            1.0,
            "order",
            "b" * 64,
            reason="no such table" if code else "",
            remedy="look" if code else "",
        )

        def then(order: str) -> dict[str, Any]:
            state = DrillState("web", last=replace(result, order=order))
            return {"backups": (BackupState("web", last=made()),), "drills": (state,)}

        desk.w1.then = then
        if not code:
            assert desk.box.shows("drill", "web")["verdict"] == "verified"
            return
        trouble = desk.box.fails(code, "drill", "web")
        assert trouble["code"] == said and "no such table" in trouble["message"]

    play(tmp_path, story)


def test_a_drill_runs_on_the_node_of_the_service_and_may_take_longer_than_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def story(desk: Desk) -> None:
        assert desk.box.fails(2, "drill", "web", "--node", "w2")["code"] == "not_placed"
        state = DrillState("web", running_s=NOW_S, step="it is restored")
        desk.w1.then = lambda order: {"backups": (BackupState("web", last=made()),), "drills": (state,)}
        assert desk.box.fails(6, "drill", "web", "--timeout", "30s")["code"] == "drill_under_way"
        monkeypatch.setattr(ReportPoll, "rest", interrupted)
        desk.box.does("drill", "web", code=130)
        goes_on = "Stopped waiting. The drill of web goes on on w1; its end: holdfast backup list web"
        assert goes_on in desk.box.err.getvalue(), "N64: it said only that it was interrupted"
        desk.reports()
        assert desk.box.fails(2, "drill", "web")["code"] == "not_backed_up"

    play(tmp_path, story)
