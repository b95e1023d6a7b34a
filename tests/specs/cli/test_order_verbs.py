"""restart, stop, start, force-cleanup, purge: signed, handed in, waited for; the exit code is what became of it."""

import json
import re
from argparse import Namespace
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from msgspec.structs import replace

from holdfast.cli.logs.log_order import Ordering
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.orders.order_submit import FETCH_S
from holdfast.errors import NotPermitted, SignatureRequired, Unreachable
from holdfast.model.deployment import ServiceState
from holdfast.model.fleet import Operator, Thresholds
from holdfast.model.node_view import NodesAnswer
from holdfast.model.order import OrderResult, SignedOrder, decode_order
from holdfast.model.order_view import OrderView
from holdfast.model.principal import Principal
from holdfast.model.report import NodeFinding, RetiredData
from holdfast.model.schedule import Schedule
from holdfast.model.stream import LogsWanted
from holdfast.ports.stream_link import CallerStreams
from tests.fleets.build import ALICE, operator_signer, small_fleet, small_service
from tests.fleets.desks import OPERATOR, Puppet, Rig
from tests.fleets.tools import HUB, Box
from tests.fleets.virtual import VirtualLoop, run

T = TypeVar("T")
BOB, BOB_SIGNER = operator_signer("bob", "apply")
_, EVE_SIGNER = operator_signer("eve")
SERVICE_VERBS = ("restart", "stop", "start", "force-cleanup")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Over memory nothing waits, so that a coroutine is done with its first step."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waited")


class Wire:
    """The hub as a command line meets it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        for name in (
            "applied",
            "records",
            "links",
            "blob",
            "observations",
            "suspects_damage",
            "damaged",
            "commit",
            "mend",
            "status",
        ):
            setattr(self, name, getattr(rig.hub, name))

    def nodes(self) -> NodesAnswer:
        return self.rig.desk.nodes()

    def submit(self, order: SignedOrder) -> str:
        return at_once(self.rig.desk.submit(OPERATOR, order))

    def orders(self, node: str = "", limit: int = 20) -> Sequence[OrderView]:
        return self.rig.desk.orders(node or None, limit).orders

    def cancel_order(self, order: str) -> None:
        self.cancels(order)

    def cancels(self, order: str, by: str = "alice") -> None:
        at_once(self.rig.desk.cancel(Principal("operator", by), order))


class Worker(Puppet):
    """A node that fetches its orders and does with them what the test wants; `lies` says so without signing it."""

    def __init__(self, rig: Rig, name: str) -> None:
        super().__init__(rig, name)
        self.outcome: Any = "done"
        self.code = self.message = self.remedy = ""
        self.away = False
        self.signs = True
        self.did: list[tuple[str, str]] = []
        self.results: dict[str, str] = {}
        self.said: dict[str, Any] = {}
        self.counter = 0

    def works(self) -> None:
        if self.away:
            return
        answer = at_once(self.says())
        for delivered in answer.orders:
            if delivered.signed is None:
                continue
            order = decode_order(delivered.signed.order)
            self.did.append((order.action, order.target))
            self.counter = order.counter
            if self.signs:
                self.results[order.id] = self.outcome
            result = OrderResult(order.id, delivered.attempt, self.outcome, self.code, self.message, self.remedy)
            at_once(self.says(results=(result,), **self.word()))

    def word(self) -> dict[str, Any]:
        report = self.a_report(**self.said)
        return {"pulse": self.pulse(report, counter=self.counter, results=dict(self.results)), "report": report}


class Paced:
    """While a command sleeps, the nodes work."""

    def __init__(self, rig: Rig, workers: Sequence[Worker]) -> None:
        self.now_s = rig.clock.now_s
        self._workers = workers
        self.slept_s = 0.0

    def monotonic_s(self) -> float:
        return self.slept_s

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        for worker in self._workers:
            worker.works()


Story = Callable[[Rig, Box, Worker, Worker], None]


def scene(home: Path, story: Story, thresholds: Thresholds = Thresholds(), *more: Operator) -> None:  # noqa: B008
    async def main(loop: VirtualLoop) -> None:
        nightly = Schedule("nightly", "web", "30 3 * * *", ("backup",))
        web = replace(small_service("web"), node="w1", failover=("w2",), schedule=(nightly,))
        rig = Rig(loop, small_fleet({"web": web}, ("w1", "w2"), (ALICE, BOB, *more), thresholds))
        workers = [Worker(rig, name) for name in ("w1", "w2")]
        for worker in workers:
            await worker.join()
            await worker.follows()
            await worker.says(heartbeat=True, **worker.word())
        story(rig, Box(home, Wire(rig), Paced(rig, workers)), *workers)

    run(main)


@pytest.mark.parametrize("verb", SERVICE_VERBS)
def test_an_order_is_signed_done_on_its_node_and_proven(verb: str, tmp_path: Path) -> None:
    """C-30, T-27: with the key of any operator of grade apply."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        box.by = BOB_SIGNER
        w1.message = "2 containers"
        text = box.does(verb, "web")
        assert text == f"w1: {verb} service.web done: 2 containers (signed by w1)\n"
        assert w1.did == [(verb, "service.web")] and w2.did == []
        document = box.shows(verb, "service.web")
        (order,) = document["orders"]
        assert (document["action"], document["target"]) == (verb, "service.web")
        assert order["result"]["outcome"] == "done" and order["result"]["verified"] and order["node"] == "w1"
        assert w1.did == [(verb, "service.web")] * 2

    scene(tmp_path, story)


@pytest.mark.parametrize("outcome", ["failed", "refused"])
def test_what_does_not_work_is_exit_1_with_the_words_of_the_node(outcome: str, tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w1.outcome, w1.code, w1.message, w1.remedy = outcome, "runtime_away", "podman is away", "start it"
        trouble = box.fails(1, "restart", "web")
        assert trouble["code"] == "runtime_away" and "podman is away" in trouble["message"]
        assert trouble["remedy"] == "start it" and f"w1 {outcome}" in trouble["message"]
        assert json.loads(box.out.getvalue())["orders"][0]["result"]["outcome"] == outcome

    scene(tmp_path, story)


def test_a_node_that_says_nothing_is_exit_6_and_may_still_do_it(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w1.away = True
        trouble = box.fails(6, "stop", "web", "--timeout", "40s")
        assert trouble["code"] == "no_result" and "w1" in trouble["message"]
        assert 40 <= box.clock.monotonic_s() <= 42
        assert box.fails(2, "stop", "web", "--timeout", "soon")["message"].startswith("--timeout")

    scene(tmp_path, story)


def test_a_node_whose_disk_is_full_fails_an_order_at_once_with_its_cause_r05(tmp_path: Path) -> None:
    """It can neither note the order nor refuse it; it says so in its signed report."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w1.away = True
        full = NodeFinding("order_waits", "no space is left for /var/x", "free space on the file system of /var/x", 1.0)
        w1.said = {"findings": (full,)}
        at_once(w1.says(heartbeat=True, **w1.word()))
        for words in (("stop", "web"), ("restart", "web")):
            begun_s = box.clock.monotonic_s()
            trouble = box.fails(1, *words)
            assert trouble["code"] == "order_waits" and "w1 takes no order: no space is left" in trouble["message"]
            assert "may still run" in trouble["message"] and trouble["remedy"] == full.remedy
            assert FETCH_S < box.clock.monotonic_s() - begun_s < FETCH_S + 3
        w1.said = {}
        at_once(w1.says(heartbeat=True, **w1.word()))
        assert box.fails(6, "stop", "web", "--timeout", "20s")["code"] == "no_result"

    scene(tmp_path, story)


def test_a_finding_that_the_node_did_not_sign_or_that_another_node_has_ends_no_wait(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w1.away = True
        full = NodeFinding("order_waits", "no space is left", "free space", 1.0)
        w2.said = {"findings": (full,)}
        at_once(w2.says(heartbeat=True, **w2.word()))
        at_once(w1.says(heartbeat=True, report=w1.a_report(findings=(full,)), pulse=w1.word()["pulse"]))
        assert box.fails(6, "stop", "web", "--timeout", "20s")["code"] == "no_result"

    scene(tmp_path, story)


def test_what_only_the_hub_says_is_marked(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w1.signs = False
        assert "(unverified)" in box.does("restart", "web")
        assert "only the hub does" in box.err.getvalue()

    scene(tmp_path, story)


def test_without_waiting_the_order_is_only_handed_in(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        (order,) = box.shows("restart", "web", "--detach")["orders"]
        assert (order["node"], order["state"]) == ("w1", "waiting") and box.clock.monotonic_s() == 0
        assert [view.id for view in box.wire.orders("w1")] == [order["id"]] and w1.did == []
        assert f"waits for {w1.name}" in box.does("restart", "web", "--detach")
        assert sorted(view.counter for view in box.wire.orders("w1")) == [1, 2], "the second counts on from the first"

    scene(tmp_path, story)


def test_a_copy_that_stands_in_gets_the_order_too_unless_a_node_is_named(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w2.said = {"services": (ServiceState("web", "converged", "0" * 16, standby=True),)}
        at_once(w2.says(heartbeat=True, **w2.word()))
        text = box.does("restart", "web")
        assert [line.split(":")[0] for line in text.splitlines()] == ["w1", "w2"]
        assert (w1.did, w2.did) == ([("restart", "service.web")], [("restart", "service.web")])
        box.does("stop", "web", "-n", "w2")
        assert len(w1.did) == 1 and w2.did[1:] == [("stop", "service.web")]
        w2.away = True
        trouble = box.fails(6, "start", "web")
        assert "w2" in trouble["message"] and ("start", "service.web") in w1.did

    scene(tmp_path, story)


def test_what_is_not_there_is_named_with_what_is(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        trouble = box.fails(2, "restart", "wep")
        assert trouble["code"] == "not_applied" and "did you mean web?" in trouble["remedy"]
        assert box.fails(2, "restart", "web", "-n", "w9")["code"] == "unknown_node"
        rig.commit(small_fleet({"web": replace(small_service("web"), node="w1")}, ("w1", "w2"), (ALICE, BOB)))
        assert box.fails(2, "restart", "web", "-n", "w2")["code"] == "not_placed"
        box.wire = rig.hub  # a ledger directory: it has the revision, and delivers nothing
        assert box.fails(2, "restart", "web")["code"] == "no_hub"

    scene(tmp_path, story)


def test_a_stranger_is_refused_and_a_lower_grade_gets_the_command_that_signs(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        box.by = EVE_SIGNER
        assert box.fails(3, "restart", "web")["code"] == "unknown_signer"
        box.by = BOB_SIGNER
        trouble = box.fails(4, "purge", "old", "-n", "w1", "--yes")
        assert "grade destroy" in trouble["message"] and "alice" in trouble["message"]
        words = "holdfast order sign --node w1 --action purge --target data.old"
        assert trouble["remedy"].startswith(words) and "holdfast order submit" in trouble["remedy"]
        assert box.wire.orders() == (), "nothing was submitted"

    scene(tmp_path, story)


def test_where_one_signature_is_not_enough_nothing_is_handed_in(tmp_path: Path) -> None:
    carol, _ = operator_signer("carol", "apply")

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        trouble = box.fails(4, "restart", "web")
        assert "needs 2 signatures, 1 given" in trouble["message"]
        signs = " --key KEY && holdfast sign w1-restart.order --key KEY2 && holdfast order submit w1-restart.order"
        assert signs in re.sub(r" --(fleet|hub) \S+", "", trouble["remedy"]), "signatures come first"
        assert box.wire.orders() == ()

    scene(tmp_path, story, Thresholds(apply=2), carol)


def test_the_commands_that_collect_signatures_have_every_node_and_argument(tmp_path: Path) -> None:
    carol, _ = operator_signer("carol", "apply")

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w2.said = {"services": (ServiceState("web", "converged", "0" * 16, standby=True),)}
        at_once(w2.says(heartbeat=True, **w2.word()))
        remedy = box.fails(4, "restart", "web")["remedy"]
        assert [remedy.count(f"holdfast order submit {node}-restart.order") for node in ("w1", "w2")] == [1, 1]
        remedy = box.fails(4, "schedule", "run", "web", "nightly")["remedy"]
        assert " --action run-schedule --target service.web --arg schedule=nightly " in remedy

    scene(tmp_path, story, Thresholds(apply=2), carol)


@pytest.mark.parametrize(("thresholds", "remedy"), [(2, "podman ps --all"), (1, "--key FILE")])
def test_a_stream_that_needs_another_signature_has_a_remedy_that_needs_no_file(
    thresholds: int, remedy: str, tmp_path: Path
) -> None:
    carol, carols = operator_signer("carol", "apply", scope=("service.other",))

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        box.by = carols if thresholds == 1 else box.by
        args, applied = Namespace(fleet=box.fresh(), hub=HUB, key=None), rig.hub.applied()
        assert applied is not None
        view = FleetView(HUB, box.wire, applied, {}, True, None)
        ordering = Ordering(view, box.wire, "web", LogsWanted(b""), cast(CallerStreams, None), box, args)
        with pytest.raises(SignatureRequired) as trouble:
            ordering._signed("w1", LogsWanted(b"a key"), 0)
        assert trouble.value.remedy.endswith(remedy)

    scene(tmp_path, story, Thresholds(apply=thresholds), carol)


def test_a_node_that_has_got_its_order_is_named_where_the_next_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-21."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w2.said = {"services": (ServiceState("web", "converged", "0" * 16, standby=True),)}
        at_once(w2.says(heartbeat=True, **w2.word()))
        submit = box.wire.submit

        def once(signed: SignedOrder) -> str:
            if decode_order(signed.order).node == "w2":
                raise Unreachable("the hub is away", remedy="wait")
            return str(submit(signed))

        monkeypatch.setattr(box.wire, "submit", once)
        said = box.fails(6, "restart", "web")["message"]
        assert said == "the hub is away; w1 has got the order already and may run it"

    scene(tmp_path, story)


def test_an_id_of_the_hub_cannot_move_the_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        monkeypatch.setattr(type(box.wire), "submit", lambda self, signed: "\x1b[2J")
        assert "order \\x1b[2J waits" in box.does("restart", "web", "--detach")
        assert "order \\x1b[2J waits" in box.does("order", "sign", "--node", "w1", "--action", "ping", "--submit")

    scene(tmp_path, story)


# ---- data of services that are gone


def retired(w1: Worker) -> None:
    w1.said = {"retired": (RetiredData("old", "/srv/old", 3 * 1024**2, 17),)}
    at_once(w1.says(heartbeat=True, **w1.word()))


def test_purge_shows_what_it_sets_aside_asks_and_does_it(tmp_path: Path) -> None:
    """C-17, H-23: size and path in the node's own signed word; grade destroy."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        retired(w1)
        assert box.fails(2, "purge", "old", "-n", "w1")["code"] == "no_terminal"
        assert w1.did == []
        text = box.does("purge", "old", "-n", "w1", "--yes")
        begin = "/srv/old on w1: 3.0 MiB in 17 files will be set aside, and deleted after 7 days. "
        assert text.startswith(begin) and "holdfast retired restore old -n w1" in text.splitlines()[0]
        assert text.splitlines()[1] == "w1: purge data.old done (signed by w1)"
        assert w1.did == [("purge", "data.old")]

    scene(tmp_path, story)


def test_purge_names_the_node_that_has_the_data_and_never_touches_what_is_applied(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        retired(w1)
        trouble = box.fails(2, "purge", "old")
        assert "is on w1" in trouble["message"] and "holdfast purge old -n w1" in trouble["remedy"]
        trouble = box.fails(3, "purge", "web", "-n", "w1", "--yes")
        assert trouble["code"] == "still_applied" and "holdfast undeploy web" in trouble["remedy"]
        assert box.fails(3, "purge", "web")["message"] == trouble["message"]
        assert "reports no data of web" in box.does("purge", "web", "-n", "w2", "--yes")
        assert w1.did == [] and w2.did == [("purge", "data.web")]

    scene(tmp_path, story)


def test_purge_of_a_stale_copy_says_where_the_service_runs(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        copy = RetiredData("web", "/srv/web", 3 * 1024**2, 17, epoch=1, state="superseded", target="w1")
        w2.said = {"retired": (copy,)}
        at_once(w2.says(heartbeat=True, **w2.word()))
        text = box.does("purge", "web", "-n", "w2", "--yes")
        assert text.startswith("/srv/web on w2 (superseded; the service runs on w1): 3.0 MiB in 17 files will be set")
        assert w1.did == [] and w2.did == [("purge", "data.web")]

    scene(tmp_path, story)


def test_force_cleanup_reaches_what_is_left_of_a_service_that_is_gone(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        rig.commit(small_fleet({"new": 1}, ("w1", "w2"), (ALICE, BOB)))
        assert "was removed" in box.fails(2, "restart", "web")["message"]
        box.does("force_cleanup", "web")
        assert w1.did == [("force-cleanup", "service.web")], "where it was removed from"
        box.does("force-cleanup", "web", "-n", "w2")
        assert w2.did == [("force-cleanup", "service.web")]

    scene(tmp_path, story)


# ---- cancel


def waiting(box: Box, *words: str) -> str:
    (order,) = box.shows(*(words or ("restart", "web")), "--detach")["orders"]
    return str(order["id"])


def test_an_order_that_waits_is_taken_back_and_never_runs_n39(tmp_path: Path) -> None:
    """`restart` for a machine that is off ran when it came back."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        order = waiting(box)
        assert "to w1" in box.does("order", "cancel", order[:12])
        w1.works()
        assert w1.did == []
        (listed,) = box.shows("order", "list")["orders"]
        assert (listed["state"], listed["cancelled_by"], listed["result"]) == ("cancelled", "alice", None)
        assert "cancelled" in box.does("order", "list")
        assert box.shows("order", "cancel", order)["cancelled"], "twice is the same as once"
        assert rig.restarted().desk.orders("w1", 9).orders[0].cancelled_by == "alice", "durable"
        assert any("cancel-order" in line.decode() for line in rig.desk.audit_lines(None, 0, 99))

    scene(tmp_path, story)


def test_what_the_node_has_or_has_done_cannot_be_cancelled_n39(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        order = waiting(box)
        answer = at_once(w1.says())
        assert len(answer.orders) == 1
        trouble = box.fails(5, "order", "cancel", order)
        assert trouble["code"] == "order_not_waiting" and "may run it" in trouble["message"]
        result = OrderResult(order, 1, "done")
        at_once(w1.says(results=(result,), **w1.word()))
        assert "it is done" in box.fails(5, "order", "cancel", order)["message"]
        assert box.shows("order", "list")["orders"][0]["state"] == "done"

    scene(tmp_path, story)


def test_a_result_that_comes_after_all_is_shown_n39(tmp_path: Path) -> None:
    """A hub that restarted does not know what it delivered before: the node has the last word."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        order = waiting(box)
        at_once(w1.says())
        rig.registry.members["w1"].orders[order].attempt = 0  # as after a restart
        box.does("order", "cancel", order)
        at_once(w1.says(results=(OrderResult(order, 1, "done"),), **w1.word()))
        (listed,) = box.shows("order", "list")["orders"]
        assert (listed["state"], listed["cancelled_by"]) == ("done", None)

    scene(tmp_path, story)


def test_who_could_not_sign_an_order_cannot_cancel_it_n39(tmp_path: Path) -> None:
    eve = replace(operator_signer("eve", "apply")[0], scope=("service.other",))

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        order = waiting(box)
        for name in ("eve", "mallory"):
            with pytest.raises(NotPermitted):
                box.wire.cancels(order, by=name)
        assert box.wire.orders("w1")[0].cancelled_by == ""
        box.wire.cancels(order, by="bob")
        assert box.wire.orders("w1")[0].cancelled_by == "bob"
        purge = waiting(box, "purge", "old", "-n", "w1", "--yes")
        with pytest.raises(NotPermitted, match="bob could not sign an order to purge"):
            box.wire.cancels(purge, by="bob")  # of grade apply

    scene(tmp_path, story, Thresholds(), eve)


def test_an_order_that_is_not_there_is_said_n39(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        first = waiting(box)
        for id, why in (
            ("0" * 32, "there is no order"),
            ("abc", "too short"),
            ("", "too short"),
            (first[:3], "too short"),
        ):
            trouble = box.fails(2, "order", "cancel", id)
            assert trouble["code"] == "not_found" and why in trouble["message"]
        assert box.wire.orders("w1")[0].state == "waiting"

    scene(tmp_path, story)


def test_orders_of_streams_do_not_hide_the_others_n39(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        order = waiting(box)
        plain = box.wire.orders

        def with_logs(node: str = "", limit: int = 20) -> list[OrderView]:
            logs = [replace(plain()[0], id=f"{number:032x}", action="logs") for number in range(30)]
            return [*logs, *plain(node, limit)][:limit]

        box.wire.orders = with_logs
        assert [one["id"] for one in box.shows("order", "list")["orders"]] == [order]
        assert len(box.shows("order", "list", "--all")["orders"]) == 20
        assert len(box.shows("order", "list", "--all", "-n", "40")["orders"]) == 31

    scene(tmp_path, story)


def called_silent(box: Box) -> None:
    """The hub calls every node unhealthy."""
    nodes = box.wire.nodes

    def unhealthy() -> NodesAnswer:
        answer: NodesAnswer = nodes()
        return replace(answer, nodes=tuple(replace(view, status="unhealthy") for view in answer.nodes))

    box.wire.nodes = unhealthy


@pytest.mark.parametrize("verb", SERVICE_VERBS)
def test_a_silent_node_is_named_at_once_and_the_order_with_it_t5_n32(verb: str, tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w1.away = True
        called_silent(box)
        box.does(verb, "web", "--detach")
        (order,) = box.wire.orders("w1")
        said = box.err.getvalue()
        assert "w1 is silent (last contact " in said and f"runs order {order.id} if it is back within 15 min" in said
        assert f"holdfast order cancel {order.id} --fleet " in said, "it can be pasted"
        box.does(verb, "web", "--timeout", "8s", code=6)
        assert box.err.getvalue().count("w1 is silent") == 1 and "has not fetched" not in box.err.getvalue()
        box.does("order", "cancel", order.id)

    scene(tmp_path, story)


def test_a_node_that_does_not_fetch_its_order_is_named_before_the_hub_calls_it_silent_t5_n32(tmp_path: Path) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w1.away = True
        box.does("restart", "web", "--timeout", "4s", code=6)
        assert "has not fetched" not in box.err.getvalue(), "a node that is connected has fetched it by then"
        box.does("restart", "web", "--timeout", "8s", code=6)
        assert len(re.findall(r"w1 has not fetched order \w{32} yet", box.err.getvalue())) == 1
        w1.away = False
        box.does("restart", "web")
        assert "has not fetched" not in box.err.getvalue()

    scene(tmp_path, story)


@pytest.mark.parametrize("verb", SERVICE_VERBS)
def test_ctrl_c_names_the_order_and_what_goes_on_t6(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        def interrupted(seconds: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(box.clock, "sleep", interrupted)
        box.does(verb, "web", code=130)
        (order,) = box.wire.orders("w1")
        said = box.err.getvalue()
        assert f"Order {order.id} for w1 stays" in said and f"holdfast order cancel {order.id} --fleet " in said
        assert "Interrupted." in said
        box.does("order", "list", "--node", "w1")
        box.does("order", "cancel", order.id)

    scene(tmp_path, story)


def test_ctrl_c_names_only_the_orders_that_have_no_result_yet_t6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w2.said = {"services": (ServiceState("web", "converged", "0" * 16, standby=True),)}
        at_once(w2.says(heartbeat=True, **w2.word()))
        w2.away = True
        sleep = box.clock.sleep

        def interrupted(seconds: float) -> None:
            if box.clock.monotonic_s() > 3:
                raise KeyboardInterrupt
            sleep(seconds)

        monkeypatch.setattr(box.clock, "sleep", interrupted)
        box.does("restart", "web", code=130)
        said = box.err.getvalue()
        assert w1.did and "for w2 stays" in said and "for w1 stays" not in said

    scene(tmp_path, story)


def test_ctrl_c_between_two_orders_names_the_one_that_is_at_the_hub_t6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        w2.said = {"services": (ServiceState("web", "converged", "0" * 16, standby=True),)}
        at_once(w2.says(heartbeat=True, **w2.word()))
        submit = box.wire.submit

        def interrupted(order: SignedOrder) -> str:
            if decode_order(order.order).node == "w2":
                raise KeyboardInterrupt
            id: str = submit(order)
            return id

        box.wire.submit = interrupted
        box.does("restart", "web", code=130)
        (order,) = box.wire.orders("w1")
        assert f"Order {order.id} for w1 stays" in box.err.getvalue()

    scene(tmp_path, story)
