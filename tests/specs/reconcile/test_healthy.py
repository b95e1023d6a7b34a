"""Healthy, and since when: one good answer makes it so, three bad ones in a row undo it (M-47, M-70, M-71, M-72)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model import duration
from holdfast.model.container import Container, ContainerSpec, Part
from holdfast.model.fleet import Health, Route
from holdfast.reconcile import healthy
from holdfast.reconcile.healthy import BAD_MAX, RESTARTS_MAX, RETURN_S, Proof, Watch

SETTLE_S = 3.0
HTTP = Health("http", start_period="10s", interval="2s")
UP = Container("a", "web", "running", True, started_s=1.0)
CRASHED = replace(UP, running=False, phase="exited", exit_code=1)


def word(watch: Watch, container: Container, now_s: float, *checks: Health) -> str:
    return healthy.word(watch, container, Proof(checks or (HTTP,)), now_s)


def unchecked(watch: Watch, container: Container, now_s: float, alive: bool = True) -> str:
    """Its process is `alive` at that time."""
    proof = Proof(settle_s=SETTLE_S)
    if healthy.may_settle(watch, proof, now_s) and alive:
        watch = healthy.settled(watch)
    return healthy.word(watch, container, proof, now_s)


def probed(watch: Watch, *answers: bool) -> Watch:
    for ok in answers:
        watch = healthy.probed(watch, ok)
    return watch


def test_it_starts_until_the_first_good_answer_however_many_bad_ones_came_before() -> None:
    watch = healthy.begin(UP, 100.0)
    assert word(watch, UP, 100.0) == "starting"
    assert word(probed(watch, *[False] * 9), UP, 110.0) == "starting"
    assert word(probed(watch, *[False] * 9, True), UP, 110.0) == "healthy"


def test_one_that_is_not_healthy_when_its_start_period_is_over_has_failed_and_may_still_recover() -> None:
    watch = healthy.begin(UP, 100.0)
    assert word(watch, UP, 110.1) == "failed"
    assert word(probed(watch, False), UP, 110.1) == "failed"
    assert word(probed(watch, False, True), UP, 110.1) == "healthy"


def test_three_bad_answers_in_a_row_make_it_unhealthy_and_one_good_one_heals() -> None:
    watch = probed(healthy.begin(UP, 100.0), True)
    assert word(probed(watch, False, False), UP, 200.0) == "healthy"
    assert word(probed(watch, False, False, False), UP, 200.0) == "unhealthy"
    assert word(probed(watch, False, False, True, False, False), UP, 200.0) == "healthy"
    assert word(probed(watch, False, False, False, True), UP, 200.0) == "healthy"


def test_without_a_check_it_is_healthy_once_it_has_lived_for_its_settle_time() -> None:
    """N16: a program that ends after a second is not well after 0.3 s."""
    watch = healthy.begin(UP, 0.0)
    assert unchecked(watch, UP, SETTLE_S - 0.1) == "starting"
    assert unchecked(watch, UP, SETTLE_S) == "healthy"
    again = replace(UP, started_s=2.0)
    reborn = healthy.looked(watch, again, 500.0)
    assert unchecked(reborn, again, 500.0 + SETTLE_S / 2) == "starting", "another life counts from its own beginning"
    assert unchecked(healthy.looked(watch, CRASHED, 500.0), CRASHED, 500.0) == "starting", "however long it lived"


def test_an_old_look_does_not_show_that_it_has_lived_for_its_settle_time() -> None:
    """N16: it was seen at 0.3 s, and podman did not answer since."""
    assert unchecked(healthy.begin(UP, 0.0), UP, 500.0, alive=False) == "starting"


def test_another_process_of_the_same_second_is_another_life() -> None:
    """N16: podman lists starts in whole seconds. A process that lives for 0.4 s was called healthy after one second."""
    watch = healthy.begin(replace(UP, pid=11), 0.0)
    again = replace(UP, pid=12)
    reborn = healthy.looked(watch, again, 0.9)
    assert unchecked(reborn, again, SETTLE_S) == "starting" and unchecked(reborn, again, 0.9 + SETTLE_S) == "healthy"
    assert word(healthy.looked(probed(watch, True), again, 0.9), again, 0.9) == "starting", "nor did it answer"


def test_one_that_an_agent_finds_has_lived_before() -> None:
    assert unchecked(healthy.begin(UP, 100.0, lived_s=SETTLE_S), UP, 100.0) == "healthy"
    assert unchecked(healthy.begin(UP, 100.0, lived_s=1.0), UP, 100.0) == "starting"
    assert unchecked(healthy.begin(CRASHED, 100.0, lived_s=900.0), CRASHED, 102.0) == "failed"


ROUTES = (Route("http", 8080), Route("admin", 9000), Route("again", 8080))


def test_a_component_with_routes_and_no_check_is_healthy_when_each_port_takes_a_connection() -> None:
    """N15."""
    part = Part(ContainerSpec("f", "web", "main", 1, "web:1", ""), "d", routes=ROUTES)
    assert [(check.type, check.port) for check in healthy.proof(part, 0.0).checks] == [("tcp", 8080), ("tcp", 9000)]
    assert healthy.proof(replace(part, routes=()), 0.0) == Proof((), 3.0)


def test_a_declared_check_does_not_speak_for_ports_of_routes_that_it_does_not_ask() -> None:
    """N108: its check answered on another port, nothing listened on that of the route, and that was called live."""
    part = Part(ContainerSpec("f", "web", "main", 1, "web:1", ""), "d", routes=ROUTES)
    asks = Health("http", path="/health", port=8080, interval="2s", timeout="1s", start_period="9s")
    assert healthy.proof(replace(part, health=asks), 0.0).checks == (
        asks,
        Health("tcp", port=9000, interval="2s", timeout="1s", start_period="9s"),
    )
    inside = Health("exec", cmd=("true",), start_period="9s")
    assert [(check.type, check.port) for check in healthy.proof(replace(part, health=inside), 0.0).checks] == [
        ("exec", UNSET),
        ("tcp", 8080),
        ("tcp", 9000),
    ]
    assert healthy.proof(replace(part, health=asks, routes=ROUTES[:1]), 0.0).checks == (asks,)


def test_in_a_fast_lab_nothing_takes_long_to_start_or_to_settle() -> None:
    part = Part(ContainerSpec("f", "web", "main", 1, "web:1", ""), "d", health=HTTP, settle="5s")
    (check,) = healthy.proof(part, 8.0).checks
    assert check.start_period == "8s"
    assert healthy.proof(replace(part, health=UNSET), 8.0).settle_s == 1.0
    assert healthy.proof(replace(part, health=UNSET), 0.0).settle_s == 5.0
    assert healthy.proof(replace(part, health=UNSET, settle="0s"), 8.0).settle_s == 0.0
    assert healthy.proof(None, 8.0).settle_s == 1.0 and healthy.proof(None, 0.0).settle_s == 3.0


def test_one_that_is_paused_does_not_work_whatever_it_did_before_n111() -> None:
    paused = replace(UP, phase="paused")
    assert word(probed(healthy.begin(UP, 0.0), True), paused, 1.0) == "unhealthy"
    assert unchecked(healthy.begin(UP, 0.0, lived_s=SETTLE_S), paused, 1.0) == "unhealthy"


def test_a_container_that_was_only_made_has_not_failed() -> None:
    created = Container("a", "web", "created")
    assert word(healthy.begin(created, 0.0), created, 99.0) == "starting"


def test_a_crash_is_the_runtimes_to_heal_for_a_short_while() -> None:
    watch = healthy.looked(healthy.begin(UP, 100.0), CRASHED, 101.0)
    assert word(watch, CRASHED, 101.0 + RETURN_S) == "starting"
    assert word(watch, CRASHED, 101.1 + RETURN_S) == "failed"
    later = healthy.looked(watch, CRASHED, 101.0 + RETURN_S)
    assert later == watch, "looking again does not make it younger"


@pytest.mark.parametrize(
    "ended",
    [
        replace(CRASHED, exit_code=0),
        replace(CRASHED, restarts=RESTARTS_MAX),
        replace(CRASHED, exit_code=0, phase="other"),
    ],
)
def test_what_the_runtime_will_not_bring_back_has_failed_at_once(ended: Container) -> None:
    assert word(healthy.looked(healthy.begin(UP, 100.0), ended, 101.0), ended, 101.0) == "failed"


def test_what_we_stopped_ourselves_does_not_come_back_until_we_start_it() -> None:
    watch = healthy.stopped(probed(healthy.begin(UP, 100.0), True))
    killed = replace(CRASHED, exit_code=143)
    down = healthy.looked(watch, killed, 101.0)
    assert word(down, killed, 101.0) == "failed" and not healthy.returns(down, killed)
    assert word(healthy.begin(UP, 102.0), UP, 102.0) == "starting"


def test_crashes_on_the_way_do_not_renew_the_start_period() -> None:
    watch = healthy.looked(healthy.begin(UP, 100.0), CRASHED, 105.0)
    again = replace(UP, started_s=2.0, restarts=1)
    watch = healthy.looked(watch, again, 105.2)
    assert word(watch, again, 109.9) == "starting"
    assert word(watch, again, 110.1) == "failed"
    late = healthy.looked(watch, CRASHED, 110.1)
    assert word(late, CRASHED, 110.1) == "failed", "nor is a return waited for after it"
    assert healthy.returns(late, CRASHED), "but the runtime may restart it, however late"
    assert not healthy.returns(late, replace(CRASHED, restarts=RESTARTS_MAX))


def test_one_that_was_healthy_and_crashed_starts_anew() -> None:
    watch = probed(healthy.begin(UP, 100.0), True)
    down = healthy.looked(watch, CRASHED, 500.0)
    assert word(down, CRASHED, 500.1) == "starting"
    again = replace(UP, started_s=2.0)
    up = healthy.looked(down, again, 500.2)
    assert word(up, again, 500.3) == "starting" and word(up, again, 510.3) == "failed"
    assert word(probed(up, True), again, 510.3) == "healthy"


def test_a_restart_that_nobody_saw_is_still_another_life() -> None:
    watch = probed(healthy.begin(UP, 100.0), True)
    again = replace(UP, started_s=2.0)
    assert word(healthy.looked(watch, again, 101.0), again, 101.0) == "starting"
    assert healthy.looked(watch, UP, 101.0) == watch
    down = healthy.looked(watch, CRASHED, 101.0)
    assert word(healthy.looked(down, UP, 102.0), UP, 102.0) == "starting", "seen down is enough"


def test_probes_are_eager_while_it_starts_and_then_keep_the_declared_pace() -> None:
    watch = healthy.begin(UP, 100.0)
    pauses = []
    for _ in range(8):
        pauses.append(healthy.pause_s(watch, HTTP))
        watch = probed(watch, False)
    assert pauses == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.0])
    assert healthy.pause_s(probed(watch, True), HTTP) == 2.0
    assert healthy.pause_s(probed(healthy.begin(UP, 100.0), True), HTTP) == 2.0
    assert healthy.pause_s(replace(watch, probes=10**9), HTTP) == 2.0


def test_one_that_has_been_well_for_a_while_is_asked_less_often_until_its_first_bad_answer() -> None:
    watch = healthy.begin(UP, 100.0)
    for _ in range(9):
        watch = probed(watch, True)
    assert healthy.pause_s(watch, HTTP) == 2.0
    watch = probed(watch, True)
    assert healthy.pause_s(watch, HTTP) == healthy.EASE_S
    assert healthy.pause_s(watch, replace(HTTP, interval="60s")) == 60.0, "never more often than declared"
    assert healthy.pause_s(probed(watch, False), HTTP) == 2.0


EVENTS = st.lists(st.sampled_from(["good", "bad", "crash", "up", "wait"]), max_size=30)


@given(events=EVENTS, checks=st.sampled_from([(HTTP,), (HTTP, HTTP), ()]))
def test_a_verdict_is_always_one_of_four_words_and_healthy_only_with_a_reason(events: list[str], checks: Any) -> None:
    now_s, container = 100.0, UP
    watch = healthy.begin(container, now_s)
    good, bad_in_row = False, 0
    for event in events:
        now_s += 0.1 if event != "wait" else 4.0
        if event == "crash":
            container, good, bad_in_row = replace(CRASHED, started_s=container.started_s), False, 0
        elif event == "up" and not container.running:
            container = replace(UP, started_s=now_s)
        elif event in ("good", "bad") and container.running:
            good, bad_in_row = good or event == "good", 0 if event == "good" else bad_in_row + 1
            watch = healthy.probed(watch, event == "good")
        watch = healthy.looked(watch, container, now_s)
        verdict = healthy.word(watch, container, Proof(checks), now_s)
        if checks:
            assert (verdict == "healthy") is (container.running and good and bad_in_row < BAD_MAX)
            assert (verdict == "unhealthy") is (container.running and good and bad_in_row >= BAD_MAX)
        assert verdict in ("starting", "healthy", "unhealthy", "failed")


@pytest.mark.parametrize("now_s", [0.0, 7.25, 1000.999, 123456.5])
def test_steady_probes_end_their_pause_at_a_whole_step(now_s: float) -> None:
    pause_s = healthy.in_step(healthy.EASE_S, HTTP, now_s)
    assert healthy.EASE_S - healthy.STEP_S < pause_s <= healthy.EASE_S
    assert now_s + pause_s == pytest.approx(round(now_s + pause_s))


@pytest.mark.parametrize("interval", ["4500ms", "5s", "30s"])
def test_no_probe_comes_sooner_than_the_declared_interval(interval: str) -> None:
    slow = replace(HTTP, interval=interval)
    pause_s = max(healthy.EASE_S, duration.milliseconds(interval) / 1000)
    assert healthy.in_step(pause_s, slow, 7.25) == pause_s


def test_a_pause_that_is_not_at_ease_stays_as_it_is() -> None:
    assert healthy.in_step(1.0, HTTP, 7.25) == 1.0
