"""Applying verbs end when their result was seen: by the signed word of the node, step by step (M-46, I-21)."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import Unreachable
from holdfast.model.deployment import ServiceState
from holdfast.model.node_view import NodeNews, NodeView
from holdfast.model.report import ContainerState, Departure, Parked
from tests.fleets.build import small_fleet
from tests.fleets.commands import Scene, changed, scene


def deploys(one: Scene, version: int = 2, *words: str, code: int = 0) -> str:
    one.operator.fleet = changed(one.operator.fleet, web=version)
    return one.operator.does("deploy", "web", *words, code=code)


def test_a_deploy_waits_for_the_signed_word_and_prints_every_step_once(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        steps = [one.step("pull web:2", took_s=0.8), one.step("start main 0", took_s=0.2)]
        waits = one.step("healthy main 0", "running")
        one.then(
            lambda: one.says(),  # its receipt; it has not looked at its services yet
            lambda: one.says(one.state("settling", step="pull web:2", steps=(one.step("pull web:2", "running"),))),
            lambda: one.says(one.state("settling", steps=(*steps, waits))),
            lambda: one.says(one.state("settling", steps=(*steps, waits), message="still")),
            lambda: one.says(one.state("converged", steps=(*steps, replace(waits, outcome="done", took_s=1.0)))),
        )
        said = deploys(one)
        err = one.operator.err.getvalue()
        assert "Applied revision 2" in said and "Converged: web on w1." in err
        lines = [line for line in err.splitlines() if line.startswith("w1  web")]
        assert lines == [
            "w1  web  pull web:2  done 0.8 s",
            "w1  web  start main 0  done 0.2 s",
            "w1  web  healthy main 0  done 1.0 s",
        ]
        assert one.operator.held.then == [] and "\r" not in err

    scene(tmp_path, story)


def test_json_is_one_document_at_the_end_with_every_step(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.then(lambda: one.says(one.state("converged", steps=(one.step("pull web:2", took_s=0.5),))))
        document = json.loads(deploys(one, 2, "--json"))
        assert document["success"] is True and document["receipts"]["accepted"] == ["w1"]
        (web,) = document["services"]
        assert (web["service"], web["node"], web["phase"], web["steps"][0]["name"]) == (
            "web",
            "w1",
            "converged",
            "pull web:2",
        )
        keys = {"service", "node", "phase", "step", "code", "message", "remedy", "steps", "edge", "dns"}
        assert set(web) == keys and web["edge"] == [] and web["dns"]["phase"] == "unchanged"
        assert datetime.fromisoformat(web["steps"][0]["at"]).tzinfo is not None, "RFC 3339"
        assert one.operator.err.getvalue() == ""

    scene(tmp_path, story)


def test_a_failed_deploy_is_exit_1_with_the_step_and_what_still_serves(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        broken: dict[str, Any] = {
            "step": "healthy main 0",
            "code": "not_healthy",
            "message": "not healthy after 8 s",
            "serving": "before",
            "serving_revision": 1,
            "images": ("registry.example.com/web:1@sha256:" + "a" * 64,),
        }
        state: list[ServiceState] = []

        def fails() -> None:
            failed = one.step("healthy main 0", "failed", took_s=8.0, message="not healthy after 8 s")
            state.append(one.state("failed", steps=(failed,), **broken))
            one.says(state[0])

        one.then(fails)
        document = json.loads(deploys(one, 2, "--json", code=1))
        trouble = one.operator.complaint
        assert document["success"] is False and document["services"][0]["phase"] == "failed"
        assert trouble["code"] == "rollout_failed"
        for words in (
            "revision 2 stays recorded",
            "web",
            "w1",
            "'healthy main 0'",
            "not healthy after 8 s",
            "web:1 (revision 1)",
        ):
            assert words in trouble["message"], words
        assert "holdfast logs web" in trouble["remedy"] and "holdfast rollback" in trouble["remedy"]

        assert "No changes" in one.operator.does("deploy", "web", code=1), "nothing to do, and not done either"
        assert "'healthy main 0'" in one.operator.err.getvalue()

    scene(tmp_path, story)


def test_a_first_deploy_that_fails_says_that_nothing_serves(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.then(lambda: one.says(one.state("failed", step="start main 0", message="exit 1")))
        deploys(one, 2, code=1)
        assert "no version serves" in one.operator.err.getvalue()

    scene(tmp_path, story)


def test_a_step_that_failed_after_the_switch_is_no_success(tmp_path: Path) -> None:
    """M-46: it serves, and yet not every step worked."""

    async def story(one: Scene) -> None:
        hook = one.step("post_deploy main", "failed", message="exit 3")
        one.then(lambda: one.says(one.state("converged", steps=(hook,))))
        document = json.loads(deploys(one, 2, "--json", code=1))
        assert document["success"] is False and document["services"][0]["phase"] == "converged"
        assert "'post_deploy main'" in one.operator.complaint["message"]

    scene(tmp_path, story)


def test_a_version_that_keeps_ending_after_the_switch_is_no_success_also_the_second_time_n16(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        looping = ContainerState("web", "main", "unhealthy", state="restarting", restarts=3, last_exit="7")
        one.then(lambda: one.says(one.state("converged"), containers=(looping,)))
        document = json.loads(deploys(one, 2, "--json", code=1))
        assert document["success"] is False and document["services"][0]["phase"] == "failed"
        assert "main is restarting (3 restarts, last exit 7)" in one.operator.complaint["message"]
        assert "No changes" in one.operator.does("deploy", "web", code=1)
        assert "main is restarting (3 restarts, last exit 7)" in one.operator.err.getvalue()

    scene(tmp_path, story)


def test_what_does_not_settle_in_time_is_exit_6_and_named(tmp_path: Path) -> None:
    """M-78 (2): a deploy has five minutes."""

    async def story(one: Scene) -> None:
        one.then(lambda: one.says(one.state("settling", step="pull web:2")))
        one.clock.passed_s = began_s = 1_000.0
        deploys(one, 2, "--json", code=6)
        assert 300 <= one.clock.passed_s - began_s < 302, "[timeouts] deploy"
        trouble = one.operator.complaint
        assert trouble["code"] == "not_settled" and "web on w1 (step 'pull web:2')" in trouble["message"]
        assert "nothing needs to be applied again" in trouble["remedy"]
        assert one.operator.held.asked < 40, "it slept at the hub instead of asking again and again"

    scene(tmp_path, story)


def test_the_limit_is_the_fleets_own(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.then(lambda: one.says(one.state("settling")))
        deploys(one, 2, "--json", code=6)
        assert 20 <= one.clock.passed_s < 25

    fleet = small_fleet(("web",), ("w1", "w2"))
    scene(tmp_path, story, replace(fleet, timeouts=replace(fleet.timeouts, deploy="20s")))


def test_what_waits_for_a_signature_is_exit_4_with_the_command(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        parked = Parked("service.web", "its data would be lost", "holdfast order sign --action x", 0.0)
        one.then(lambda: one.says(parked=(parked,)))
        deploys(one, 2, "--json", code=4)
        trouble = one.operator.complaint
        assert trouble["code"] == "needs_operator" and trouble["remedy"].startswith("holdfast order sign --action x")

    scene(tmp_path, story)


def test_what_was_parked_before_does_not_stop_a_deploy_that_goes_on(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        parked = Parked("service.web", "of the revision before", "x", 0.0)
        one.then(lambda: one.says(parked=(parked,)), lambda: one.says(one.state("converged")))
        deploys(one)

    scene(tmp_path, story)


def test_detached_is_committed_and_not_waited_for(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        deploys(one, 2, "--detach")
        assert one.operator.held.asked == one.operator.held.looked == 0 and one.clock.passed_s == 0
        assert one.rig.head.number == 2

    scene(tmp_path, story)


def test_an_old_word_of_the_same_deployment_does_not_end_the_wait(tmp_path: Path) -> None:
    """web 1 → 2 → 1 again: a hub that shows the converged word from before is waited out (I-12)."""

    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        before = one.rig.desk.nodes().nodes
        one.then(lambda: one.says(one.state("converged")))
        deploys(one, 2)
        old = next(view for view in before if view.name == "w1")
        one.operator.held.lie = lambda view: old if view.name == "w1" else view

        def honest() -> None:
            one.operator.held.lie = lambda view: view
            one.says(one.state("converged"))

        def replays() -> None:
            one.operator.held.lie = lambda view: old if view.name == "w1" else view

        one.then(lambda: None, lambda: None, honest)
        deploys(one, 1)
        assert one.operator.held.then == []
        one.then(lambda: one.says(one.state("converged")))
        deploys(one, 2)
        one.then(lambda: one.says(one.state("settling")), replays, lambda: None, honest)
        deploys(one, 1)
        assert one.operator.held.then == [], "a receipt does not make older words new"

    scene(tmp_path, story)


def test_what_was_applied_before_is_not_the_result(tmp_path: Path) -> None:
    """The node has signed for the revision, and has not yet looked at its services again."""

    async def story(one: Scene) -> None:
        before = one.state("converged")
        one.then(
            lambda: one.says(before), lambda: one.says(before, address="x"), lambda: one.says(one.state("converged"))
        )
        deploys(one)
        assert one.operator.held.then == []

    scene(tmp_path, story)


def test_a_forged_word_ends_no_wait(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        def forged(view: NodeView) -> NodeView:
            if view.name != "w1" or not view.report:
                return view
            report = one.w1.a_report(services=(one.state("converged"),), runtime="x")
            return replace(view, report=report)  # the pulse names another one

        one.operator.held.lie = forged
        one.then(lambda: one.says(one.state("settling")))
        deploys(one, 2, code=6)

    scene(tmp_path, story)


def test_a_node_that_only_observes_or_never_joined_is_not_waited_for(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.then(lambda: one.says(mode="observe"))
        document = json.loads(deploys(one, 2, "--json"))
        assert document["success"] and document["services"][0]["phase"] == "unknown"
        assert "observe" in document["services"][0]["message"]

    scene(tmp_path, story)


def test_an_agent_that_runs_no_containers_is_not_waited_for(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.then(lambda: one.says(runtime=""))
        deploys(one)
        assert one.clock.passed_s < 5
        assert "Not waiting for web: w1 reports no services" in one.operator.err.getvalue()

    scene(tmp_path, story)


def test_undeploy_waits_until_nothing_is_left(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        left = (ContainerState("web", "main", "running", id="c1"),)
        state = one.state("converged")
        one.says(state, containers=left)
        one.then(
            lambda: one.says(replace(state, phase="settling"), containers=left),
            lambda: one.says(containers=(replace(left[0], status="stopped"),)),
            lambda: one.says(),
        )
        document = json.loads(one.operator.does("undeploy", "web", "--json"))
        assert one.operator.held.then == [] and document["services"][0]["phase"] == "retired" and document["success"]

    scene(tmp_path, story)


def test_undeploy_of_a_name_that_was_never_applied_is_a_slip_and_of_what_is_gone_a_conflict(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.does("undeploy", "wep", "--json", code=2)
        assert "service.web" in one.operator.complaint["remedy"] and one.rig.head.number == 1
        one.operator.does("undeploy", "web", "--detach")
        one.operator.does("undeploy", "web", "--json", code=5)
        assert "removed in revision 2" in one.operator.complaint["message"]

    scene(tmp_path, story)


def test_an_undeploy_that_does_not_end_is_exit_6_after_its_own_limit(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        left = (ContainerState("web", "main", "running", id="c1"),)
        one.then(lambda: one.says(containers=left))
        one.operator.does("undeploy", "web", "--json", code=6)
        assert 120 <= one.clock.passed_s < 125 and one.operator.complaint["code"] == "not_settled"

    scene(tmp_path, story)


def test_an_inactive_service_is_settled_when_it_is_held(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        web = one.operator.fleet.services["web"]
        one.operator.fleet = replace(one.operator.fleet, services={"web": replace(web, active=False)})
        one.then(lambda: one.says(one.state("held")))
        one.operator.does("apply")
        assert "Held: web on w1." in one.operator.err.getvalue()

    scene(tmp_path, story)


def test_only_what_the_command_changed_is_waited_for(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.operator.fleet = changed(one.operator.fleet, api=1)
        one.then(lambda: one.says(one.state("failed"), one.state("converged", "api")))
        document = json.loads(one.operator.does("apply", "--json"))
        assert [service["service"] for service in document["services"]] == ["api"]

    scene(tmp_path, story, replace(small_fleet(("web",), ("w1",)), nodes=small_fleet((), ("w1",)).nodes))


def test_nothing_to_do_waits_for_what_is_under_way_and_for_nobody_who_is_silent(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.then(lambda: one.says())
        one.operator.does("apply")  # records the key that w1 joined with
        passed_s, asked = one.clock.passed_s, one.operator.held.asked
        assert "No changes" in one.operator.does("apply"), "w1 has said nothing of web"
        assert (one.clock.passed_s, one.operator.held.asked) == (passed_s, asked)
        one.says(one.state("settling"))
        one.then(lambda: one.says(one.state("converged")))
        said = one.operator.does("deploy", "web")
        assert "No changes: service.web matches the applied revision " in said, "of the others it says nothing (N48)"
        assert one.operator.held.then == []
        looked, asked = one.operator.held.looked, one.operator.held.asked
        assert json.loads(one.operator.does("apply", "--json"))["success"]
        assert (one.operator.held.looked - looked, one.operator.held.asked - asked) == (1, 0), "one look, no wait"

    scene(tmp_path, story)


def test_the_word_of_a_better_day_is_not_called_a_result(tmp_path: Path) -> None:
    """M-47: of a node that the hub calls unhealthy nobody knows how its services are."""

    async def story(one: Scene) -> None:
        one.then(lambda: one.says())
        one.operator.does("apply")
        one.says(one.state("converged"))
        one.clock.sleep(300)
        silent = one.operator.held.nodes_named

        def unhealthy(names: Any) -> Any:
            answer = silent(names)
            return replace(answer, nodes=tuple(replace(view, status="unhealthy") for view in answer.nodes))

        one.operator.held.nodes_named = unhealthy  # type: ignore[method-assign]
        said = one.operator.does("deploy", "web") + one.operator.err.getvalue()
        assert "Converged" not in said and "no contact with w1 for 300 s" in said

    scene(tmp_path, story)


def test_a_hub_that_restarts_meanwhile_is_waited_for(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        def away() -> None:
            raise Unreachable("the hub is away", remedy="wait")

        looks = one.operator.held.nodes_named
        count = [0]

        def now_and_then(names: Any) -> Any:
            count[0] += 1
            if count[0] in (3, 4):
                away()
            return looks(names)

        one.operator.held.nodes_named = now_and_then  # type: ignore[method-assign]
        one.then(lambda: one.says(one.state("settling")), away, away, lambda: one.says(one.state("converged")))
        deploys(one)
        assert 0.5 in one.clock.sleeps

    scene(tmp_path, story)


def test_a_hub_that_cannot_tell_is_asked_now_and_then(tmp_path: Path) -> None:
    """The release before this one has no news."""

    async def story(one: Scene) -> None:
        todo = [lambda: None, lambda: one.says(one.state("settling")), lambda: one.says(one.state("converged"))]

        def news(after: int, wait_s: float) -> NodeNews | None:
            return None

        def sleep(seconds: float) -> None:
            one.clock.passed_s += seconds
            if todo:
                todo.pop(0)()

        one.operator.held.news = news  # type: ignore[method-assign]
        one.clock.sleep = sleep  # type: ignore[method-assign]
        deploys(one)
        assert todo == [] and one.clock.passed_s < 0.2, "looked often while it is young"

    scene(tmp_path, story)


def test_an_apply_of_the_whole_fleet_looks_at_its_nodes_only(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        asked: list[Any] = []
        looks = one.operator.held.nodes_named

        def noted(names: Any) -> Any:
            asked.append(names)
            return looks(names)

        one.operator.held.nodes_named = noted  # type: ignore[method-assign]
        one.then(lambda: one.says(one.state("converged")))
        deploys(one)
        assert set(asked) == {("w1",)}

    scene(tmp_path, story)


@pytest.mark.parametrize("words", [(), ("-q",)])
def test_on_a_terminal_what_runs_is_one_line_that_changes(tmp_path: Path, words: tuple[str, ...]) -> None:
    async def story(one: Scene) -> None:
        one.operator.err.isatty = lambda: True  # type: ignore[method-assign]
        running = one.step("pull web:2", "running")
        one.then(
            lambda: one.says(one.state("settling", steps=(running,))),
            lambda: one.says(one.state("converged", steps=(replace(running, outcome="done"),))),
        )
        deploys(one, 2, *words)
        err = one.operator.err.getvalue()
        assert ("\r" in err) == (words == ()) and ("pull web:2" in err) == (words == ())
        assert err.count("\r\x1b[K") % 2 == 0 or err == "", "the last line is taken away"

    scene(tmp_path, story)


def test_hostile_words_of_a_node_move_no_cursor(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        evil = "\x1b[2J\nw9  db  done"
        one.then(lambda: one.says(one.state("failed", step=evil, message=evil, steps=(one.step(evil, "failed"),))))
        deploys(one, 2, code=1)
        err = one.operator.err.getvalue()
        assert "\x1b" not in err and not [line for line in err.splitlines() if line.startswith("w9")]

    scene(tmp_path, story)


def test_an_undeploy_shows_its_steps_and_ends_after_the_last_of_them(tmp_path: Path) -> None:
    """D-24, M-46: nothing of it is there any more, but something is still being tidied up."""

    async def story(one: Scene) -> None:
        stop, tidy = one.step("stop main 0", took_s=1.0), one.step("remove network n", "running")
        one.then(
            lambda: one.says(left=(Departure("web", (stop, tidy)),)),
            lambda: one.says(left=(Departure("web", (stop, replace(tidy, outcome="done", took_s=0.5))),)),
        )
        document = json.loads(one.operator.does("undeploy", "web", "--json"))
        (web,) = document["services"]
        assert one.operator.held.then == [] and document["success"] and web["phase"] == "retired"
        assert [(step["name"], step["outcome"]) for step in web["steps"]] == [
            ("stop main 0", "done"),
            ("remove network n", "done"),
        ]

    scene(tmp_path, story)


def ways_back(text: str) -> list[str]:
    """The commands of a remedy that change the fleet."""
    found = re.findall(r"`holdfast ([^`]*?)(?: --fleet [^`]*)?`", text)
    return [words for words in found if not words.startswith("logs")]


def test_the_way_back_from_a_first_deploy_that_failed_is_undeploy_t3(tmp_path: Path) -> None:
    """A rollback would remove it, and needs --allow-removals for that."""

    async def story(one: Scene) -> None:
        one.says()
        one.then(lambda: one.says(one.state("failed", step="start main 0", message="exit 1")))
        deploys(one, 2, "--json", code=1)
        assert ways_back(one.operator.complaint["remedy"]) == ["undeploy web"]
        one.operator.does("deploy", "web", "--json", code=1)
        assert ways_back(one.operator.complaint["remedy"]) == ["undeploy web"], "also the second time"
        one.operator.does("rollback", "--detach", code=3)
        one.operator.does("undeploy", "web", "--detach")

    scene(tmp_path, story, small_fleet((), ("w1", "w2")))


def test_the_way_back_from_the_first_revision_is_undeploy_t3(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("failed", step="start main 0", message="exit 1"))
        one.operator.does("deploy", "web", "--json", code=1)
        assert ways_back(one.operator.complaint["remedy"]) == ["undeploy web"]

    scene(tmp_path, story)


def test_the_way_back_names_what_it_removes_t3(tmp_path: Path) -> None:
    """One service is updated, another is new, both fail."""

    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        one.operator.fleet = changed(one.operator.fleet, web=2, more=1)
        both = ("more", "web")
        one.then(lambda: one.says(*(one.state("failed", each, step="pull", message="no") for each in both)))
        one.operator.does("apply", "--json", code=1)
        remedy = one.operator.complaint["remedy"]
        assert ways_back(remedy) == ["rollback --allow-removals 1"] and "removes service.more" in remedy
        one.operator.does("rollback", "--allow-removals", "1", "--detach")

    scene(tmp_path, story)


def test_no_way_back_is_named_that_leaves_the_service_as_it_is_n112(tmp_path: Path) -> None:
    """Web became unhealthy on its own, and `rollback` would only have removed the other service."""

    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        one.operator.fleet = changed(one.operator.fleet, more=1)
        one.then(lambda: one.says(one.state("converged"), one.state("converged", "more")))
        one.operator.does("apply")
        one.operator.held.converged = lambda newest, limit: [1]  # type: ignore[method-assign]
        ill = ContainerState("web", "main", "unhealthy")
        one.says(one.state("converged"), one.state("converged", "more"), containers=(ill,))
        one.operator.does("deploy", "web", "--json", code=1)
        remedy = one.operator.complaint["remedy"]
        assert "holdfast logs web" in remedy and ways_back(remedy) == [], remedy

    scene(tmp_path, story)


def test_the_way_back_does_not_promise_a_command_that_is_refused_t3(tmp_path: Path) -> None:
    """The new service is protected, and the fleet has more: no command takes all of it back."""

    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        fleet = changed(one.operator.fleet, web=2, more=1)
        more = replace(fleet.services["more"], protect=True)
        one.operator.fleet = replace(fleet, services={**fleet.services, "more": more})
        one.then(lambda: one.says(*(one.state("failed", each, step="pull", message="no") for each in ("more", "web"))))
        one.operator.does("apply", "--json", code=1)
        assert ways_back(one.operator.complaint["remedy"]) == []
        one.operator.does("rollback", "--allow-removals", "1", "--detach", code=3)

    scene(tmp_path, story)


def test_a_deployed_version_that_does_not_work_is_not_said_to_keep_serving_t4(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        looping = ContainerState("web", "main", "unhealthy", state="restarting", restarts=1, last_exit="7")
        one.then(lambda: one.says(one.state("converged"), containers=(looping,)))
        deploys(one, 2, code=1)
        one.operator.does("deploy", "web", code=1)
        said = one.operator.err.getvalue()
        assert "web was deployed on w1 and does not work: main is restarting (1 restart, last exit 7)" in said
        assert "serving" not in said and "not updated" not in said

    scene(tmp_path, story)


def test_what_was_there_before_and_does_not_work_is_not_said_to_keep_serving_t4(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        old = ContainerState("web", "main", "unhealthy", deployment="before", state="restarting", restarts=9)
        more: dict[str, Any] = {"serving": "before", "serving_revision": 1, "images": ("web:1",), "step": "pull"}
        one.then(lambda: one.says(one.state("failed", **more), containers=(old,)))
        deploys(one, 2, code=1)
        said = one.operator.err.getvalue()
        assert "web:1 (revision 1) does not work: main is restarting (9 restarts)" in said, said

    scene(tmp_path, story)


@pytest.mark.parametrize(
    ("versions", "undoes"),
    [({"more": 1}, "undeploy more"), ({"web": 2}, "rollback"), ({"web": 2, "more": 1}, "rollback --allow-removals 1")],
    ids=["first", "update", "both"],
)
def test_ctrl_c_names_the_command_that_undoes_it_t3(tmp_path: Path, versions: dict[str, int], undoes: str) -> None:
    def stops() -> None:
        raise KeyboardInterrupt

    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        one.operator.fleet = changed(one.operator.fleet, **versions)
        one.then(stops)
        one.operator.does("apply", code=130)
        last = one.operator.err.getvalue().strip().splitlines()[-1]
        assert f"to undo it: holdfast {undoes} --fleet " in last, last
        one.operator.does(*undoes.split(), "--detach")

    scene(tmp_path, story)
