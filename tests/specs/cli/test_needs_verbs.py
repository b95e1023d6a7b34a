"""`holdfast need list`, `grant list` and `grant revoke`: what nodes signed about needs, and an order to a provider."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.model.checkin import JoinAnswer, JoinRequest
from holdfast.model.fleet import Component, Fleet, Node, Service, Thresholds
from holdfast.model.need import GrantState, GrantStates, Need, NeedState, NeedStates, Provides
from tests.fleets.build import ALICE, digest_pinned, operator_signer, small_fleet
from tests.fleets.desks import Rig
from tests.fleets.needing import HANDLER
from tests.fleets.tools import Box
from tests.fleets.virtual import VirtualLoop, run
from tests.specs.cli.test_order_verbs import Paced, Wire, Worker, at_once

BOB, BOB_SIGNER = operator_signer("bob", "apply")
FIELDS = HANDLER | {"fields": "user password database"}
PROVIDES = Provides("w2", "logins", ("web",), FIELDS)
DB = Need("db", "logins", required=True)
HANDLE = "sha256:" + "a" * 64
DAY_S = 86_400.0
ROLES: dict[str, Any] = {"w1": ("worker",), "w2": ("worker", "provider")}

Story = Callable[["Scene"], None]


class Node1(Worker):
    """A node with parts of a report that no keeper made."""

    def __init__(self, rig: Rig, name: str) -> None:
        super().__init__(rig, name)
        self.section: Any = NeedStates()

    async def join(self, once: str = "", address: str = "", **changed: Any) -> JoinAnswer:
        once, roles = f"once {self.name}", ROLES[self.name]
        enrolment = self.rig.enrolment(self.rig.invite(self.name, once, roles=roles), self.name, self.key, once)
        return await self.rig.desk.join(self.principal, JoinRequest(enrolment, self.name, roles), "192.0.2.1")

    def word(self) -> dict[str, Any]:
        document = msgspec.json.decode(self.a_report(**self.said)) | msgspec.to_builtins(self.section)
        report = msgspec.json.encode(document)
        return {"pulse": self.pulse(report, counter=self.counter, results=dict(self.results)), "report": report}


class Scene:
    """web on w1 needs a login that w2 gives."""

    def __init__(self, rig: Rig, box: Box, w1: Node1, w2: Node1) -> None:
        self.rig, self.box, self.w1, self.w2 = rig, box, w1, w2
        self.now_s = rig.clock.now_s()

    def needs(self, *states: NeedState) -> None:
        self.w1.section = NeedStates(states)
        at_once(self.w1.says(heartbeat=True, **self.w1.word()))

    def grants(self, *states: GrantState) -> None:
        self.w2.section = GrantStates(states)
        at_once(self.w2.says(heartbeat=True, **self.w2.word()))

    def grant(self, node: str = "w1", **more: Any) -> GrantState:
        state = GrantState("web", "db", node, "logins", HANDLE, "held", issued_s=self.now_s - 60)
        return replace(state, **more)


def fleet(*needs: Need, thresholds: Thresholds = Thresholds()) -> Fleet:  # noqa: B008
    web = Service((Component("main", digest_pinned("app:1")),), node="w1", needs=needs)
    found = small_fleet({"web": web}, ("w1", "w2"), (ALICE, BOB), thresholds)
    nodes = {name: Node(name, roles, address=f"100.64.0.{name[1]}") for name, roles in ROLES.items()}
    return replace(found, nodes=nodes, provides={PROVIDES.name: PROVIDES})


def scene(home: Path, story: Story, *needs: Need, thresholds: Thresholds = Thresholds()) -> None:  # noqa: B008
    async def main(loop: VirtualLoop) -> None:
        rig = Rig(loop, fleet(*needs, thresholds=thresholds))
        workers = [Node1(rig, name) for name in ("w1", "w2")]
        for worker in workers:
            await worker.join()
            await worker.follows()
            await worker.says(heartbeat=True, **worker.word())
        story(Scene(rig, Box(home, Wire(rig), Paced(rig, workers)), *workers))

    run(main)


# ---- needs


def test_a_need_of_which_its_node_said_nothing_waits_and_says_why(tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        (row,) = one.box.shows("need", "list")["needs"]
        assert {"service", "name", "type", "provider", "state"} <= row.keys(), "the contract's"
        assert [row[key] for key in ("service", "name", "type", "provider", "state")] == [
            *("web", "db", "logins", "w2", "waiting")
        ]
        assert row["why"] == "w1 has not said anything about it yet" and row["verified"] is False
        text = one.box.does("need", "list")
        assert "\n  w1 has not said anything about it yet; web does not start without it\n" in text
        assert "db (required)" in text

    scene(tmp_path, story, DB)


def test_a_fulfilled_need_is_one_line_and_one_that_waits_has_its_reason_and_its_next_try(tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        state = NeedState("web", "db", "logins", "w2", "fulfilled", 2, one.now_s - 9, one.now_s + 3600)
        one.needs(state)
        head, line = one.box.does("need", "list", "web").splitlines()
        assert head.startswith("SERVICE") and "fulfilled" in line and "signed by w1, 0 s ago" in line
        (row,) = one.box.shows("need", "list", "service.web")["needs"]
        assert (row["state"], row["generation"], row["verified"]) == ("fulfilled", 2, True)
        assert row["until"] and row["since"] and row["next"] is None
        one.needs(replace(state, state="waiting", generation=0, tries=3, next_s=one.now_s + 8, why="w2 is silent"))
        text = one.box.does("need", "list")
        assert "\n  w2 is silent; 3 tries in vain; the next in 8 s; web does not start without it\n" in text
        one.needs(replace(state, state="expired", tries=1, why="\x1b[2Jrefused"))
        text = one.box.does("need", "list")
        assert "\n  \\x1b[2Jrefused; 1 try in vain\n" in text, "a service that has values starts"
        one.needs(replace(state, state="waiting"))
        assert "\n  it is asked for now\n" in one.box.does("need", "list")

    scene(tmp_path, story, DB)


def test_a_report_about_another_provider_or_of_another_form_says_nothing_about_the_need(tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        one.needs(NeedState("web", "db", "logins", "w9", "fulfilled", 1))
        (row,) = one.box.shows("need", "list")["needs"]
        assert (row["state"], row["provider"], row["verified"]) == ("waiting", "w2", False)
        one.w1.section = {"needs": [{"service": 1}]}
        at_once(one.w1.says(heartbeat=True, **one.w1.word()))
        assert one.box.shows("need", "list")["needs"][0]["state"] == "waiting"

    scene(tmp_path, story, DB)


def test_needs_of_a_service_that_does_not_exist_name_the_nearest_and_no_need_is_said(tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        assert "did you mean web?" in one.box.fails(2, "need", "list", "wep")["remedy"]
        assert one.box.shows("need", "list") == {"needs": []} and one.box.does("need", "list") == ""
        assert "No need is applied. Add [[needs]] to a service file" in one.box.err.getvalue()

    scene(tmp_path, story)


# ---- grants


@pytest.mark.parametrize(
    ("needs", "more", "note"),
    [
        ((DB,), {}, ""),
        ((), {}, "not declared any more: goes when w1 has said for the whole grace that it does not use it"),
        ((), {"state": "unused", "goes_s": 6 * DAY_S}, "unused: goes in 6 days"),
        ((), {"state": "unused", "goes_s": 3 * 3600.0}, "unused: goes in 3 h"),
        ((), {"state": "revoking", "why": "its node was removed"}, "goes now: its node was removed"),
        ((DB,), {"state": "disabled"}, "refused by the server: web has moved"),
    ],
)
def test_a_grant_says_when_it_goes(needs: tuple[Need, ...], more: dict[str, Any], note: str, tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        one.grants(one.grant(**more))
        (row,) = one.box.shows("grant", "list")["grants"]
        assert {"service", "node", "type", "handle", "state"} <= row.keys(), "the contract's"
        assert (row["service"], row["node"], row["provider"], row["handle"]) == ("web", "w1", "w2", HANDLE)
        assert (row["generation"], row["verified"], row["declared"]) == (1, True, bool(needs)) and row["issued"]
        assert row["goes_s"] == more.get("goes_s")
        (_, line) = one.box.does("grant", "list").splitlines()
        assert line.endswith(f"signed by w2, 0 s ago  {note}".rstrip())

    scene(tmp_path, story, *needs)


def test_grants_of_one_node_are_those_that_it_gave_or_has(tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        one.grants(one.grant())
        for node in ("w1", "w2"):
            assert len(one.box.shows("grant", "list", "--node", node)["grants"]) == 1
        one.grants(one.grant(node="w9"))
        assert one.box.shows("grant", "list", "--node", "w1") == {"grants": []}
        assert one.box.does("grant", "list", "--node", "w1") == ""
        assert "No node reports a credential that it gave" in one.box.err.getvalue()
        assert one.box.fails(2, "grant", "list", "--node", "w8")["code"] == "unknown_node"

    scene(tmp_path, story, DB)


def test_a_revocation_is_asked_about_signed_and_done_by_the_provider(tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        one.grants(one.grant())
        one.w2.message = "1 credential of need db of web on w1 revoked"
        text = one.box.does("grant", "revoke", "service.web", "db", "--yes")
        assert text.splitlines() == [
            "1 credential of need db (logins) of web on w1: w2 ends the login and its connections. The data stays; web "
            "gets the next one within some minutes.",
            "w2: revoke-grant service.web done: 1 credential of need db of web on w1 revoked (signed by w2)",
        ]
        assert one.w2.did == [("revoke-grant", "service.web")] and one.w1.did == []
        assert one.box.shows("grant", "revoke", "web", "db", "--yes")["orders"][0]["result"]["outcome"] == "done"

    scene(tmp_path, story, DB)


def test_a_revocation_of_what_is_not_declared_says_that_nothing_comes_after_it(tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        one.grants(one.grant(), one.grant(generation=2))
        text = one.box.does("grant", "revoke", "web", "db", "--yes")
        assert "2 credentials of need db (logins) of web on w1" in text and "the need is not declared any more." in text

    scene(tmp_path, story)


def test_of_several_nodes_one_is_named_and_of_none_the_nearest(tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        one.grants(one.grant(), one.grant(node="w2"))
        trouble = one.box.fails(5, "grant", "revoke", "web", "db")
        assert trouble["code"] == "ambiguous" and "w1 (given by w2), w2 (given by w2)" in trouble["message"]
        assert "holdfast grant revoke web db -n w1 -p w2" in trouble["remedy"]
        assert "on w2: w2 ends" in one.box.does("grant", "revoke", "web", "db", "-n", "w2", "--yes")
        trouble = one.box.fails(2, "grant", "revoke", "web", "bd", "-n", "w1", "-p", "w2")
        assert trouble["message"] == "no provider reports a credential of need 'bd' of 'web' on w1 given by w2"
        assert trouble["remedy"].startswith("did you mean web db? `holdfast grant list")
        assert len(one.w2.did) == 1

    scene(tmp_path, story, DB)


def test_a_provider_whose_report_is_not_proven_gets_the_order_if_both_nodes_are_named(tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        one.w2.section = {"grants": [{"service": 1}]}
        at_once(one.w2.says(heartbeat=True, **one.w2.word()))
        assert one.box.fails(2, "grant", "revoke", "web", "db", "-n", "w1")["code"] == "not_found"
        text = one.box.does("grant", "revoke", "web", "db", "-n", "w1", "-p", "w2", "--yes")
        assert "w2 does not say now what it gave; whatever w1 has of need db of web ends." in text
        assert one.w2.did == [("revoke-grant", "service.web")]

    scene(tmp_path, story, DB)


def test_a_key_of_too_low_a_grade_gets_the_commands_that_collect_signatures(tmp_path: Path) -> None:
    def story(one: Scene) -> None:
        one.grants(one.grant())
        one.box.by = BOB_SIGNER
        trouble = one.box.fails(4, "grant", "revoke", "web", "db")
        assert " --action revoke-grant --target service.web --arg need=db --arg consumer=w1 " in trouble["remedy"]
        assert one.w2.did == []

    scene(tmp_path, story, DB)
