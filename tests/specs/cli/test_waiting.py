"""Whoever waits is told for what: findings of the nodes concerned at once, and now and then that it still waits."""

import io
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.cli.terminal import Terminal
from holdfast.cli.waiting.awaiter import Awaited
from holdfast.model.alert_codes import OVER
from holdfast.model.deployment import StepResult
from holdfast.model.report import NodeFinding
from holdfast.status.blockers import OF_NODE, OF_SERVICE
from tests.fleets.build import START_S
from tests.fleets.commands import Scene, changed, scene
from tests.fleets.public import HOST
from tests.specs.cli.test_public_result import Public, public_scene

MISTAKE = NodeFinding("internal_error", "service.web: AttributeError: is_blank", "report this", 0.0, "service.web")


def deploys(one: Scene, version: int = 2, *words: str, code: int = 0) -> str:
    one.operator.fleet = changed(one.operator.fleet, web=version)
    return one.operator.does("deploy", "web", *words, code=code)


def now(one: Scene, finding: NodeFinding) -> NodeFinding:
    return replace(finding, since_s=float(int(one.clock.now_s())))


def told(one: Scene) -> list[str]:
    return [line for line in one.operator.err.getvalue().splitlines() if "waiting: " in line]


def test_a_finding_of_the_node_is_shown_at_once_and_once_and_named_at_the_end(tmp_path: Path) -> None:
    """M-46: a deploy that waits says why, at once; after its time the reason stands in the error, with its remedy."""

    async def story(one: Scene) -> None:
        seen_s: list[float] = []

        def stuck() -> None:
            one.says(one.state("settling", step="switch"), findings=(now(one, MISTAKE),))

        def again() -> None:
            seen_s.extend(one.clock.passed_s for _ in told(one))
            one.says(one.state("settling", step="switch"), findings=(now(one, MISTAKE),))

        one.then(stuck, again, again)
        deploys(one, code=6)
        assert told(one) == ["w1  waiting: service.web: AttributeError: is_blank (report this)"]
        assert seen_s and seen_s[0] < 1, "before anything else was heard"
        *_, message, remedy = one.operator.err.getvalue().strip().splitlines()
        assert "web on w1 (step 'switch')" in message and "w1: service.web: AttributeError: is_blank" in message
        assert "report this; nothing needs to be applied again" in remedy

    scene(tmp_path, story)


def test_a_silent_node_is_named_at_once_n32(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        seen = one.operator.held.nodes_named

        def silent(names: Any) -> Any:
            answer = seen(names)
            return replace(answer, nodes=tuple(replace(view, status="unhealthy") for view in answer.nodes))

        one.says(one.state("converged"))
        one.operator.held.nodes_named = silent  # type: ignore[method-assign]
        heard_s: list[float] = []
        one.then(lambda: heard_s.extend(one.clock.passed_s for _ in told(one)))
        deploys(one, code=6)
        (line,) = told(one)
        assert "w1  waiting: no contact with w1 for " in line and "holdfast node show w1" in line
        assert heard_s and heard_s[0] < 1
        assert "no contact with w1" in one.operator.err.getvalue().strip().splitlines()[-2]

    scene(tmp_path, story)


def test_a_node_that_becomes_silent_during_its_rollout_is_named_in_every_reminder_n47(tmp_path: Path) -> None:
    """The reminders had only the step that it reported last, with seconds that went on."""

    async def story(one: Scene) -> None:
        seen = one.operator.held.nodes_named

        def silent(names: Any) -> Any:
            answer = seen(names)
            return replace(answer, nodes=tuple(replace(view, status="unhealthy") for view in answer.nodes))

        def dies() -> None:
            one.says(one.state("settling", step="healthy web 0"))
            one.operator.held.nodes_named = silent  # type: ignore[method-assign]

        one.then(dies)
        deploys(one, code=6)
        lines = [line for line in one.operator.err.getvalue().splitlines() if line.startswith("still waiting")]
        assert len(lines) > 2
        for line in lines:
            assert "w1 is silent (last contact " in line and "; it continues when it is back; w1  web  " in line

    scene(tmp_path, story)


def test_a_reminder_has_the_reason_of_a_step_once_n47() -> None:
    step = StepResult("backend", "running", 100.0, message="w1 does not serve it yet")
    one = Awaited("e1", HOST, f"edge e1 {HOST}: ", is_settled=False, steps=(step,), message=step.message)
    assert one.text(115.0, whole=True) == f"edge e1 {HOST}: backend 15 s, w1 does not serve it yet"
    other = replace(one, message="it was refused")
    assert other.text(115.0, whole=True) == f"edge e1 {HOST}: backend 15 s, w1 does not serve it yet: it was refused"


def test_a_terminal_shows_it_as_well(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        class Screen(io.StringIO):
            def isatty(self) -> bool:
                return True

        screen = Screen()
        one.operator.terminal = Terminal(one.operator.out, screen, io.StringIO(), environ_no_colour=True)
        one.then(
            lambda: one.says(one.state("settling"), findings=(now(one, MISTAKE),)),
            lambda: one.says(one.state("converged")),
        )
        deploys(one)
        assert "w1  waiting: service.web: AttributeError: is_blank (report this)\n" in screen.getvalue()
        assert "still waiting" not in screen.getvalue(), "a line that changes says it there"

    scene(tmp_path, story)


def test_plain_output_says_every_fifteen_seconds_what_is_waited_for(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.then(lambda: one.says(one.state("settling", step="pull web:2", message="the registry is slow")))
        deploys(one, code=6)
        lines = [line for line in one.operator.err.getvalue().splitlines() if line.startswith("still waiting")]
        assert lines[0] == "still waiting after 15 s: w1  web  pull web:2: the registry is slow"
        assert len(lines) in (19, 20), "in five minutes"

    scene(tmp_path, story)


def test_quiet_and_json_stay_one_document(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.then(lambda: one.says(one.state("settling"), findings=(now(one, MISTAKE),)))
        deploys(one, 2, "--json", code=6)
        assert "is_blank" in one.operator.complaint["message"], "the only line there is"
        assert len(one.operator.err.getvalue().strip().splitlines()) == 1

    scene(tmp_path, story)


def test_what_an_operator_has_to_answer_is_a_warning_of_every_deploy_n14(tmp_path: Path) -> None:
    """It keeps nothing from settling; another service's is told by `status`."""
    asked = NodeFinding("undeclared_volume", "its image declares /data", 'scratch = ["/data"]', 0.0, "service.web")
    others = (replace(asked, message="it, of db", address="service.db"), replace(asked, message="it", code="drift"))

    def warned(one: Scene) -> list[str]:
        return [line for line in one.operator.err.getvalue().splitlines() if line.startswith("warning: w1: it")]

    async def story(one: Scene) -> None:
        for version in (2, 2):
            one.then(lambda: one.says(one.state("converged"), findings=(asked, *others)))
            deploys(one, version)
            assert warned(one) == ['warning: w1: its image declares /data (scratch = ["/data"])']
        one.then(lambda: one.says(one.state("converged"), accepts=False, findings=(asked,)))
        deploys(one, 3, code=6)
        assert warned(one) == [], "a node that has not signed speaks of an earlier revision"

    scene(tmp_path, story)


def test_nothing_to_change_and_still_under_way_says_why_it_waits(tmp_path: Path) -> None:
    """The second deploy of somebody who did not believe the first: what was found long ago is the reason."""

    async def story(one: Scene) -> None:
        one.says(one.state("settling"), findings=(replace(MISTAKE, since_s=START_S - 500),))
        one.then(lambda: one.says(one.state("converged")))
        deploys(one, 1)
        assert told(one) == ["w1  waiting: service.web: AttributeError: is_blank (report this)"]

    scene(tmp_path, story)


def test_what_was_found_before_this_revision_has_time_to_be_taken_back(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        old = replace(MISTAKE, code="service_waits", since_s=START_S - 500)
        one.says(one.state("settling"), findings=(old,))
        one.then(
            lambda: one.says(one.state("settling"), findings=(old,)),
            lambda: one.says(one.state("converged")),
        )
        deploys(one)
        assert told(one) == [], "it was mended by this very revision"
        one.then(lambda: one.says(one.state("settling"), findings=(old,)))
        began_s = one.clock.passed_s
        deploys(one, 3, code=6)
        assert len(told(one)) == 1 and one.clock.passed_s > began_s, "it stays, so it is the reason"

    scene(tmp_path, story)


def test_only_what_concerns_the_waiting_is_told(tmp_path: Path) -> None:
    """Findings of other services, and of an attempt that is over, are for `status`."""

    async def story(one: Scene) -> None:
        others = tuple(
            NodeFinding(code, "something else", "", one.clock.now_s(), address)
            for code, address in (
                ("service_waits", "service.blog"),
                ("rollout_failed", "service.web"),
                ("public_dns_differs", "service.web"),
                ("certificate_failed", "certificate.blog.blog.holdfast.internal"),
            )
        )
        one.then(lambda: one.says(one.state("settling"), findings=others))
        deploys(one, code=6)
        assert told(one) == []

    scene(tmp_path, story)


def test_a_node_that_refuses_the_revision_says_so_while_its_signature_is_waited_for(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        def refuses() -> None:
            finding = NodeFinding("revision_refused", "revision 2 is refused: its chain", "holdfast history")
            one.says(accepts=False, findings=(now(one, finding),))

        one.then(refuses)
        deploys(one, code=6)
        assert told(one) == ["w1  waiting: revision 2 is refused: its chain (holdfast history)"]
        assert "confirmation of w1" in one.operator.err.getvalue()
        assert "w1: revision 2 is refused" in one.operator.err.getvalue().splitlines()[-2]

    scene(tmp_path, story)


def test_words_of_a_node_begin_no_line_of_their_own(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        hostile = replace(MISTAKE, message="a\nw1  web  switch  done\x1b[2J")
        one.then(
            lambda: one.says(one.state("settling"), findings=(now(one, hostile),)),
            lambda: one.says(one.state("converged")),
        )
        deploys(one)
        assert told(one) == ["w1  waiting: a⏎w1  web  switch  done\\x1b[2J (report this)"]

    scene(tmp_path, story)


def test_traffic_that_keeps_a_deploy_waiting_is_told_of_worker_and_edge(tmp_path: Path) -> None:
    """M-78, M-83: proxy, certificates, DNS and the edge itself, while the service is not there yet; nothing is said to
    serve that does not."""

    async def story(one: Public) -> None:
        internal = "certificate.web.web.holdfast.internal"

        def found(code: str, address: str = "") -> NodeFinding:
            return NodeFinding(code, f"{code} it is", "mend it", one.clock.now_s(), address)

        def stuck() -> None:
            at_w1 = (found("proxy_down"), found("certificate_failed", internal))
            at_e1 = (
                *(found("proxy_port_taken"), found("dns_down"), found("edge_route_failed", "service.web")),
                found("handshake_failed", f"certificate.{HOST}"),
            )
            one.worker(one.state("settling", step="switch"), findings=at_w1)
            one.says(by=one.w2, names=one.served)
            one.edge(one.edge_state("failed", step="backend", message="nobody listens"), findings=at_e1)

        one.then(stuck)
        one.deploys(code=6)
        assert sorted(line.split(" it is")[0] for line in told(one)) == [
            "e1  waiting: dns_down",
            "e1  waiting: edge_route_failed",
            "e1  waiting: handshake_failed",
            "e1  waiting: proxy_port_taken",
            "w1  waiting: certificate_failed",
            "w1  waiting: proxy_down",
        ]
        said = one.operator.err.getvalue().splitlines()[-2]
        assert "web on w1 (step 'switch')" in said and f"edge e1 {HOST} (step 'backend')" in said
        assert "is not public" not in said

    public_scene(tmp_path, story)


def test_every_alarm_of_traffic_can_be_a_reason() -> None:
    """But for certificates that grow old, which are served, for runs and backups beside the service, for what keeps
    ending after it served, and for the machine."""
    assert OVER.keys() - OF_NODE - OF_SERVICE == {
        *("certificate_expiring", "certificate_stale"),
        *("schedule_failed", "schedule_missed"),
        *("backup_failed", "backup_stale", "backup_damaged", "drill_failed", "target_gone"),
        *("crash_loop", "disk_filling"),
    }


def test_of_a_hub_that_lies_no_reason_is_believed(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        def lie(view: Any) -> Any:
            return replace(view, report=view.report.replace(b"is_blank", b"is_bland"))

        one.operator.held.lie = lie
        one.then(lambda: one.says(one.state("settling"), findings=(now(one, MISTAKE),)))
        deploys(one, code=6)
        assert told(one) == []

    scene(tmp_path, story)


def test_an_undeploy_from_a_machine_that_is_off_ends_when_everybody_else_is_done(tmp_path: Path) -> None:
    """M-85: its names stay until it is heard again or their time is over; nobody has to look on."""

    async def story(one: Public) -> None:
        one.then(lambda: one.everybody())
        one.deploys()
        lingering, began_s = one.served, one.clock.passed_s

        def rest() -> None:
            one.says(by=one.w2, names=lingering)
            one.edge(gone=(HOST,), names=lingering)

        one.then(rest)
        said = one.operator.does("undeploy", "web", code=6)
        assert one.clock.passed_s - began_s < 35, "as long as a signature is waited for"
        assert "not confirmed by w1" in one.operator.err.getvalue()
        assert "1 removal." in said and "--allow-removals" not in said, "the verb says so itself"

    public_scene(tmp_path, story)
