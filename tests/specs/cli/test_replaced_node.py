"""`migrate --all --from w1 --to w1` and `agent join --replace`: what they refuse, and what they restore with which
backup, before anything is signed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.adapters.certificates import issuer as issuing
from holdfast.adapters.certificates import x509
from holdfast.adapters.sealing.age import AgeSealer
from holdfast.adapters.sealing.identities import AgeIdentities
from holdfast.model import archive_key, backup_key
from holdfast.model.archive import Purpose
from holdfast.model.archive_key import ArchiveKey
from holdfast.model.fleet import Settings, Volume
from holdfast.model.invite import encode_token
from holdfast.model.node_view import NodesAnswer
from holdfast.model.revision import Entry
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_move
from holdfast.planning.plan import Inputs, plan
from holdfast.trust import certificates as rules
from holdfast.trust import reports
from tests.fleets.agents import token
from tests.fleets.build import ALICE, operator_signer, signed, small_fleet, small_service
from tests.fleets.desks import Rig, key_of
from tests.fleets.tools import Box
from tests.specs.cli.test_backup_verbs import Desk
from tests.specs.cli.test_checkpoint_verbs import given, noting
from tests.specs.cli.test_order_verbs import BOB, BOB_SIGNER, Worker, at_once, scene

AGAIN = ("migrate", "--all", "--from", "w1", "--to", "w1")
ISSUER = issuing.make_key()


def fleet() -> Any:
    def kept(name: str, tier: Any = "worker") -> Any:
        one = small_service(name)
        part = replace(one.components[0], volumes=(Volume("book", "/book", "backup"),))
        return replace(one, components=(part,), node="w1", tier=tier)

    services = {"diary": kept("diary"), "vault": kept("vault", "core"), "web": kept("web")}
    return small_fleet({**services, "plain": replace(small_service("plain"), node="w1")}, ("w1", "w2"), (ALICE, BOB))


class Newcomer(Worker):
    """A machine that joined in the place of w1."""

    bare: tuple[str, ...] = ("diary", "vault", "web")
    moves: tuple[dict[str, Any], ...] = ()
    has_issuer = True

    def a_report(self, **said: Any) -> bytes:
        allowed = rules.constraints("w1", ("worker",), Settings("small"))
        made = issuing.make_issuer(ISSUER, "w1", allowed, self.rig.clock.now_s())
        issuer = {"issuer": x509.der_of(made)} if self.has_issuer else {}
        whole = msgspec.json.decode(super().a_report(**said, **issuer))
        return msgspec.json.encode(whole | {"bare": self.bare, "moves": self.moves})

    def pulse(self, report: bytes = b"", **changed: Any) -> Any:
        return super().pulse(report, format=7, **changed)


class Lost(Desk):
    """w1 is lost; every service but diary has a backup."""

    def __init__(self, rig: Rig, box: Box) -> None:
        self.rig, self.box = rig, box
        self.objects: dict[str, bytes] = {}
        box.wire.backup_objects = self._listed
        box.wire.backup_object = self.objects.get
        for name in ("revoke", "audit_lines", "audit_entries", "news", "nodes_named", "converged"):
            setattr(box.wire, name, getattr(box.wire, name, None) or (lambda *given: None))  # of a hub that runs
        self.is_silent = True
        answer = box.wire.nodes
        box.wire.nodes = lambda: self._shown(answer())
        applied = rig.hub.applied()
        assert applied is not None
        found = reports.verify(rig.desk.nodes(), applied, rig.clock.now_s()).identities.proven
        rig.hub.commit(signed(plan(fleet(), applied, Inputs({}, {}, identities=found))))
        rig.desk.committed()
        self.me = AgeIdentities().fresh()
        path = box.home / ".config" / "holdfast" / "identity.age"
        path.parent.mkdir(parents=True)
        path.write_text(self.me.identity + "\n")
        self.backups = {name: self.backed_up(name) for name in ("vault", "web")}

    def _shown(self, answer: NodesAnswer) -> NodesAnswer:
        if not self.is_silent:
            return answer
        nodes = (replace(one, status="unhealthy") if one.name == "w1" else one for one in answer.nodes)
        return replace(answer, nodes=tuple(nodes))

    def backed_up(self, name: str, sequence: int = 1, recipient: str = "", **more: Any) -> str:
        purpose = Purpose(self.rig.fleet_id, name, 1)
        plain = archive_key.written(ArchiveKey(purpose, AgeIdentities().fresh().identity))
        key = AgeSealer().seal(plain, [recipient or self.me.recipient])
        self.objects[backup_key.sealed(self.rig.fleet_id, name, 1, "keys", key)] = key
        return self.stored(sequence, service=name, **more)

    def joins(self, key: str = "new", over: str = "w1", **changed: Any) -> Newcomer:
        one = Newcomer(self.rig, "w1")
        one.key = key_of(key)
        for name, value in changed.items():
            setattr(one, name, value)
        at_once(one.join(f"once {key}", replaces=True, over=key_of(over).line))
        self.reports_of(one)
        return one

    def reports_of(self, one: Newcomer) -> None:
        self.is_silent = False
        at_once(one.follows())
        at_once(one.says(heartbeat=True, **one.word()))

    def entry(self, name: str) -> Entry:
        applied = self.rig.hub.applied()
        assert applied is not None
        return applied.table.entries[name]


def play(home: Path, story: Callable[[Lost], None]) -> None:
    scene(home, lambda rig, box, w1, w2: story(Lost(rig, box)))


def test_one_revision_records_the_machine_and_every_backup_and_says_what_is_lost(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        lost.backed_up("diary")
        lost.joins()
        before = lost.rig.head.number
        text = lost.box.does(*AGAIN, "--yes", "--detach")
        assert text.count("you lose at most") == 3 and "comes back" not in text
        assert "Restored on w1, one after another: vault, diary, web." in lost.box.err.getvalue()
        assert "plain" in lost.box.err.getvalue()
        assert lost.rig.head.number == before + 1
        node = lost.entry("node.w1").identity
        assert node.key == key_of("new").line and node.issuer  # type: ignore[union-attr]
        moved = [lost.entry(f"service.{name}") for name in ("vault", "diary", "web", "plain")]
        assert [(one.epoch, getattr(one.move, "turn", 0)) for one in moved] == [(2, 1), (2, 2), (2, 4), (1, 0)]
        assert getattr(moved[2].move, "backup", "") == lost.backups["web"]
        assert [row["id"] for row in lost.box.shows("backup", "list", "web")["backups"]] == [lost.backups["web"][:16]]

    play(tmp_path, story)


def test_a_service_without_a_backup_is_named_and_left_and_the_others_go_on(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        lost.stored(1, service="diary", by="w2")  # not signed by its node
        lost.joins()
        trouble = lost.box.fails(1, *AGAIN, "--yes", "--detach")
        assert trouble["code"] == "no_backup" and "diary" in trouble["message"]
        assert "holdfast undeploy diary" in trouble["remedy"] and "&& holdfast deploy diary" in trouble["remedy"]
        assert [lost.entry(f"service.{name}").epoch for name in ("vault", "diary", "web")] == [2, 1, 2]
        document = json.loads(lost.box.out.getvalue())
        assert (document["restored"], document["without_backup"]) == (["vault", "web"], ["diary"])

    play(tmp_path, story)


def test_data_on_the_new_machine_stays_unless_force_sets_it_aside(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        one = lost.joins(bare=("diary", "vault"))
        lost.backed_up("diary")
        now_s = int(lost.rig.clock.now_s())
        lost.stored(2, made_s=now_s + 100, service="web", by="new")  # of the data that is set aside
        lost.box.does(*AGAIN, "--yes", "--detach")
        assert "w1 has data of web already, which stays as it is" in lost.box.err.getvalue()
        assert [lost.entry(f"service.{name}").epoch for name in ("vault", "diary", "web")] == [2, 2, 1]
        one.bare = ()
        lost.reports_of(one)
        lost.box.does(*AGAIN, "--force", "--yes", "--detach")
        move = lost.entry("service.web").move
        assert (getattr(move, "backup", ""), getattr(move, "aside", False)) == (lost.backups["web"], True)
        assert [lost.entry(f"service.{name}").epoch for name in ("vault", "diary")] == [2, 2], "they are restored"

    play(tmp_path, story)


def test_a_key_that_the_identity_cannot_open_is_named_before_anything_is_signed(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        other = AgeIdentities().fresh().recipient
        lost.objects.clear()
        for name in ("diary", "vault"):
            lost.backed_up(name, recipient=other)
        lost.backed_up("web")
        lost.joins()
        before = lost.rig.head
        trouble = lost.box.fails(3, *AGAIN, "--yes", "--detach")
        assert trouble["code"] == "cannot_open" and "vault, diary" in trouble["message"]
        assert lost.rig.head == before

    play(tmp_path, story)


def test_an_operator_of_grade_apply_cannot(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        lost.joins()
        before = lost.rig.head
        lost.box.by = BOB_SIGNER
        assert "destroy" in lost.box.fails(4, *AGAIN, "--yes", "--detach")["message"]
        assert lost.rig.head == before

    play(tmp_path, story)


def test_a_key_of_no_operator_stops_a_move_of_every_service_in_words(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        lost.box.by = operator_signer("eve")[1]
        for name in ("w1", "w2"):
            one = Newcomer(lost.rig, name)
            one.bare, one.has_issuer = (), False
            lost.reports_of(one)
        trouble = lost.box.fails(3, "migrate", "--all", "--from", "w1", "--to", "w2", "--yes", "--detach")
        assert trouble["code"] == "unknown_signer" and trouble["message"].startswith("stopped at diary: your key")
        assert "not begun: plain, web" in trouble["message"] and "the same command goes on" in trouble["remedy"]

    play(tmp_path, story)


def test_a_node_whose_machine_was_not_replaced_is_refused(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        silent = lost.box.fails(6, *AGAIN, "--yes")
        assert silent["code"] == "not_replaced" and "agent join --replace w1" in silent["remedy"]
        again = Newcomer(lost.rig, "w1")
        again.bare = ()
        lost.reports_of(again)
        assert lost.box.fails(5, *AGAIN, "--yes")["code"] == "not_replaced"
        assert lost.box.fails(2, "migrate", "--all", "--from", "w9", "--to", "w9", "--yes")["code"] == "unknown_node"

    play(tmp_path, story)


def test_a_machine_that_has_not_reported_its_certificate_is_waited_for(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        lost.joins(has_issuer=False)
        trouble = lost.box.fails(6, *AGAIN, "--yes")
        assert trouble["code"] == "not_heard" and "holdfast agent run" in trouble["remedy"]

    play(tmp_path, story)


def test_another_backup_is_for_a_service_that_waits(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        older = lost.backups["web"]
        newer = lost.stored(2, made_s=int(lost.rig.clock.now_s()), service="web")
        one = lost.joins()
        lost.backed_up("diary")
        lost.box.does(*AGAIN, "--yes", "--detach")
        assert getattr(lost.entry("service.web").move, "backup", "") == newer
        state = {"service": "web", "epoch": 2, "role": "target", "peer": "w1", "trouble": "it is damaged"}
        one.bare, one.moves = (), (state,)
        lost.reports_of(one)
        lost.box.does("migrate", "web", "--to", "w1", "--backup", older[:12], "--yes", "--detach")
        entry = lost.entry("service.web")
        assert (entry.epoch, getattr(entry.move, "backup", "")) == (3, older)
        other = Newcomer(lost.rig, "w2")
        other.bare, other.has_issuer = (), False
        lost.reports_of(other)
        one.moves = ({**state, "epoch": 3},)
        lost.reports_of(one)
        assert lost.box.fails(5, "migrate", "web", "--to", "w2", "--yes")["code"] == "move_under_way"
        lost.box.does("migrate", "web", "--to", "w2", "--backup", older[:12], "--yes", "--detach")
        assert (lost.entry("service.web").node, lost.entry("service.web").epoch) == ("w2", 4)

    play(tmp_path, story)


def test_another_backup_over_data_needs_force(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        newer = lost.backups["web"]
        one = lost.joins(bare=())
        lost.box.does(*AGAIN, "--yes", "--detach")
        one.moves = ({"service": "web", "epoch": 1, "role": "target", "peer": "w1", "arrived": True},)
        lost.reports_of(one)
        had = lost.box.fails(2, "migrate", "web", "--to", "w1", "--backup", newer[:12], "--yes")
        assert had["code"] == "has_data" and "--force" in had["remedy"]

    play(tmp_path, story)


def test_a_service_that_another_node_is_handing_over_is_taken_back_first(tmp_path: Path) -> None:
    """Its newest data is there, not in the backup."""

    def story(lost: Lost) -> None:
        lost.backed_up("diary")
        applied = lost.rig.hub.applied()
        assert applied is not None
        for target in ("w2", "w1"):
            lost.rig.hub.commit(signed(plan_move(Wish("web", target), applied, {})))
            lost.rig.desk.committed()
            applied = lost.rig.hub.applied()
            assert applied is not None
        source = Newcomer(lost.rig, "w2")
        source.bare, source.has_issuer = (), False
        source.moves = ({"service": "web", "epoch": 3, "role": "source", "peer": "w1", "step": "copy"},)
        lost.reports_of(source)
        one = lost.joins()
        trouble = lost.box.fails(5, *AGAIN, "--yes", "--detach")
        assert trouble["code"] == "move_under_way" and "holdfast migrate web --abort" in trouble["remedy"]
        source.moves = ({**source.moves[0], "step": "", "handed_over": True},)
        lost.reports_of(source)
        one.bare = ("diary", "vault")
        one.moves = ({"service": "web", "epoch": 3, "role": "target", "peer": "w2", "trouble": "never had it"},)
        lost.reports_of(one)
        lost.box.does(*AGAIN, "--yes", "--detach")
        assert getattr(lost.entry("service.web").move, "backup", "") == lost.backups["web"]

    play(tmp_path, story)


def test_a_later_restore_gives_the_new_machine_the_key_of_what_the_old_one_made(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        noting(lost.box)
        one = lost.joins()
        lost.backed_up("diary")
        lost.box.does(*AGAIN, "--yes", "--detach")
        lost.reports_of(one)
        lost.box.does("restore", "web", "--yes", "--detach")
        later = lost.stored(2, made_s=int(lost.rig.clock.now_s()) + 100, service="web", by="new")
        lost.box.does("restore", "web", "--yes", "--detach")
        orders = [arguments for _, arguments in given(lost.rig, lost.box)]
        assert [(one["backup"], "key" in one) for one in orders] == [(lost.backups["web"], True), (later, False)]

    play(tmp_path, story)


def test_a_second_machine_is_restored_with_the_backups_of_the_first_one(tmp_path: Path) -> None:
    """Their key is two machines old; the signed revision named them."""

    def story(lost: Lost) -> None:
        lost.joins()
        lost.backed_up("diary")
        lost.box.does(*AGAIN, "--yes", "--detach")
        lost.joins("third", "new")
        lost.box.does(*AGAIN, "--yes", "--detach")
        assert lost.entry("node.w1").identity.key == key_of("third").line  # type: ignore[union-attr]
        assert [lost.entry(f"service.{name}").epoch for name in ("vault", "diary", "web")] == [3, 3, 3]

    play(tmp_path, story)


def test_a_token_that_replaces_nothing_or_another_node_is_refused(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        for made, why in (
            (token(lost.rig, "w1"), "replaces no key of w1"),
            (token(lost.rig, "w2", replaces=True, over=key_of("w2").line), "is for w2"),
        ):
            lost.box.does(
                "agent", "join", encode_token(made), "--replace", "w1", "--state-dir", str(tmp_path / "x"), code=2
            )
            assert why in lost.box.err.getvalue() and "holdfast node invite w1 --replace" in lost.box.err.getvalue()
        assert not (tmp_path / "x").exists()

    play(tmp_path, story)


def test_a_node_that_is_alive_is_not_replaced(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        alive = Newcomer(lost.rig, "w1")
        lost.reports_of(alive)
        words = ("agent", "join", "--replace", "w1", "--state-dir", str(tmp_path / "agent"), "--yes")
        trouble = lost.box.fails(5, *words)
        assert trouble["code"] == "node_alive" and not (tmp_path / "agent").exists()

    play(tmp_path, story)


def test_an_invite_that_replaces_a_node_that_is_alive_says_so(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        lost.box.does("node", "invite", "w1", "--replace")
        assert "is alive" not in lost.box.err.getvalue()
        lost.reports_of(Newcomer(lost.rig, "w1"))
        lost.box.does("node", "invite", "w1", "--replace")
        assert "w1 is alive: it reported 0 s ago; when another machine joins" in lost.box.err.getvalue()

    play(tmp_path, story)


def test_without_a_key_that_may_sign_the_other_way_is_named(tmp_path: Path) -> None:
    def story(lost: Lost) -> None:
        lost.box.by = BOB_SIGNER
        words = ("agent", "join", "--replace", "w1", "--state-dir", str(tmp_path / "agent"), "--yes")
        trouble = lost.box.fails(4, *words)
        assert "holdfast node invite w1 --replace" in trouble["remedy"]
        assert "holdfast agent join --replace w1 TOKEN" in trouble["remedy"]

    play(tmp_path, story)
