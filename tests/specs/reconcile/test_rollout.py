"""Rollouts, rule by rule: the old serves until the new is proven (M-46, H-23, I-23, C-30, issue 4 «Rollouts»)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from holdfast.model.container import Guest, Part
from holdfast.reconcile import rollout
from holdfast.reconcile.here import Here, Word
from holdfast.reconcile.rollout import next_step, next_steps
from holdfast.reconcile.steps import (
    AwaitHealthy,
    Checkpoint,
    CopyAhead,
    Create,
    Drain,
    Fail,
    Hook,
    MakeNetwork,
    Pull,
    Remove,
    RemoveNetwork,
    Start,
    Stop,
    Switch,
    Unroute,
)
from tests.specs.reconcile.guests import container, down, guest, here, made, part, seen

WEB1, WEB2 = part(version="1"), part(version="2")
DB1, DB2 = part("db", "1", volume="data"), part("db", "2", volume="data")
V1 = guest(WEB1, deployment="d1")
V2 = guest(WEB2, deployment="d2")


def names(target: Guest | None, picture: Here) -> list[str]:
    return [step.name for step in next_steps(target, picture)]


# ---- forward --------------------------------------------------------------------------------------------------------


def test_every_image_is_pulled_before_anything_is_touched() -> None:
    target = guest(WEB2, DB2, deployment="d2")
    old = here(seen(WEB1, "a"), seen(DB1, "b"), serving=guest(WEB1, DB1), images=frozenset({"web:2"}))
    assert next_steps(target, old) == (Pull("db:2", "db:2"),)
    none = replace(old, images=frozenset())
    assert next_steps(target, none) == (Pull("web:2", "web:2"), Pull("db:2", "db:2"))


def test_an_image_whose_containers_are_all_there_is_not_pulled_again() -> None:
    assert next_steps(V1, here(seen(WEB1, "a"), serving=V1, images=frozenset())) == ()


def test_an_image_is_pulled_by_its_digest_and_named_as_it_was_written() -> None:
    pinned = replace(WEB2, spec=replace(WEB2.spec, digest="sha256:" + "0" * 64))
    step = next_step(guest(pinned, deployment="d2"), here())
    assert step == Pull("web@sha256:" + "0" * 64, "web:2")
    assert step.name == "pull web:2"


def test_the_network_of_a_service_of_several_comes_before_its_containers() -> None:
    web = part(network="hf-ffffff-shop")
    assert next_step(guest(web), here()) == MakeNetwork("hf-ffffff-shop")
    assert next_step(guest(web), here(networks={"hf-ffffff-shop"})) == Create(web, 0)
    exited = here(down(web, "a"), serving=guest(web))
    assert next_step(guest(web), exited) == MakeNetwork("hf-ffffff-shop"), "also before one is started again"
    assert next_step(guest(web), here(seen(web, "a"), serving=guest(web))) is None, "not for one that runs"


def test_hooks_before_run_one_after_the_other_and_before_anything_new_is_made() -> None:
    web, db = part(pre_deploy=("migrate",)), part("db", pre_deploy=("prepare",))
    target = guest(web, db)
    assert next_steps(target, here()) == (Hook(web, "pre_deploy"),)
    assert next_steps(target, here(hooks={("web", "pre_deploy")})) == (Hook(db, "pre_deploy"),)
    done = here(hooks={("web", "pre_deploy"), ("db", "pre_deploy")})
    assert next_step(target, done) == Create(web, 0)
    assert next_step(target, here(images=frozenset())) == Pull("web:1", "web:1"), "they run in the new image"


def test_hooks_before_are_over_once_their_deployment_serves() -> None:
    web = part(pre_deploy=("migrate",))
    assert next_step(guest(web), here(seen(web, "a"), serving=guest(web))) is None
    assert next_step(guest(web), here(seen(web, "a"), serving=guest(web), images=frozenset())) is None, "nor a pull"


def test_a_hook_of_a_container_that_is_there_already_needs_its_image_too() -> None:
    web = part(pre_deploy=("migrate",))
    again = guest(web, deployment="d2")
    assert next_step(again, here(seen(web, "a"), serving=guest(web), images=frozenset())) == Pull("web:1", "web:1")
    assert next_step(again, here(seen(web, "a"), serving=guest(web))) == Hook(web, "pre_deploy")


def test_all_newcomers_are_made_and_started_before_the_first_wait() -> None:
    target = guest(part(version="2", replicas=2), part("job", "2"), deployment="d2")
    web, job = target.parts
    assert next_steps(target, here()) == (Create(web, 0), Create(web, 1), Create(job, 0))
    fresh = (made(web, "a"), made(web, "b", replica=1), made(job, "c"))
    assert names(target, here(*fresh)) == ["start web 0", "start web 1", "start job 0"]
    started = (seen(web, "a", "healthy"), seen(web, "b", "starting", replica=1), seen(job, "c", "starting"))
    assert names(target, here(*started, tried={"a", "b", "c"})) == ["healthy web 1, job 0"]


def test_the_old_is_not_touched_while_the_new_is_not_healthy() -> None:
    old, new = seen(WEB1, "a"), seen(WEB2, "b", "starting", deployment="d2")
    assert next_steps(V2, here(old, new, serving=V1, tried={"b"})) == (AwaitHealthy((new.container,)),)


def test_routes_are_switched_once_every_newcomer_is_healthy_and_only_then_the_old_drains_stops_and_goes() -> None:
    old, new = seen(WEB1, "a"), seen(WEB2, "b", deployment="d2")
    assert next_steps(V2, here(old, new, serving=V1, routed={"a"})) == (Switch(),)
    assert next_steps(V2, here(old, new, serving=V2, routed={"b"})) == (Drain((old.container,)),)
    stop = Stop(old.container, "old")
    assert next_steps(V2, here(old, new, serving=V2, routed={"b"}, drained={"a"})) == (stop,)
    assert stop.name == "stop old web 0"
    gone = Remove(old.container, "old")
    assert next_steps(V2, here(down(WEB1, "a"), new, serving=V2, routed={"b"})) == (
        replace(gone, container=down(WEB1, "a").container),
    )
    assert next_steps(V2, here(new, serving=V2, routed={"b"})) == ()


def test_an_old_one_that_still_has_a_route_is_not_stopped() -> None:
    """The agent was killed between the proxy and its journal, or somebody wrote the proxy by hand."""
    old, new = seen(WEB1, "a"), seen(WEB2, "b", deployment="d2")
    assert next_steps(V2, here(old, new, serving=V2, routed={"a"})) == (Switch(),)


def test_without_a_proxy_there_is_nothing_to_drain_and_the_switch_is_still_noted() -> None:
    """T-33"""
    old, new = seen(WEB1, "a"), seen(WEB2, "b", deployment="d2")
    assert next_steps(V2, here(old, new, serving=V1)) == (Switch(),)
    assert next_steps(V2, here(old, new, serving=V2)) == (Stop(old.container, "old"),)


def test_hooks_after_run_once_the_old_is_gone() -> None:
    web = part(version="2", post_deploy=("warm",))
    target = guest(web, deployment="d2")
    new = seen(web, "b", deployment="d2")
    assert isinstance(next_step(target, here(down(WEB1, "a"), new, serving=target)), Remove)
    assert next_step(target, here(new, serving=target)) == Hook(web, "post_deploy")
    assert next_step(target, here(new, serving=target, hooks={("web", "post_deploy")})) is None


def test_a_component_whose_spec_did_not_change_keeps_its_container() -> None:
    target = guest(WEB1, part("job", "2"), deployment="d2")
    before = guest(WEB1, part("job", "1"))
    web, old = seen(WEB1, "a"), seen(before.parts[1], "j")
    new = seen(target.parts[1], "k", deployment="d2")
    assert next_steps(target, here(web, old, serving=before)) == (Create(target.parts[1], 0),)
    assert next_steps(target, here(web, old, new, serving=target)) == (Stop(old.container, "old"),)


def test_another_deployment_of_the_same_containers_is_only_switched_to() -> None:
    again = replace(V1, deployment="d9")
    assert next_steps(again, here(seen(WEB1, "a"), serving=V1)) == (Switch(),)


def test_an_agent_that_makes_other_containers_of_the_same_deployment_proves_them_too() -> None:
    derived = replace(V2, deployment="d1")
    assert next_steps(derived, here(seen(WEB1, "a"), serving=V1)) == (Create(WEB2, 0),)
    both = here(seen(WEB1, "a"), seen(WEB2, "b", "starting"), serving=V1, tried={"b"})
    assert isinstance(next_step(derived, both), AwaitHealthy)


# ---- failing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("word", ["failed", "unhealthy"])
def test_a_newcomer_that_will_not_do_fails_the_attempt(word: Word, running: bool) -> None:
    new = seen(WEB2, "b", word, deployment="d2", running=running)
    step = next_step(V2, here(seen(WEB1, "a"), new, serving=V1, tried={"b"}))
    assert isinstance(step, Fail)
    assert (step.container, step.name) == (new.container, "healthy web 0")
    assert step.why == (rollout.WHY[word] if running else rollout.ENDED)


def test_a_newcomer_found_stopped_is_started_before_it_is_judged() -> None:
    """Left by an attempt that was overtaken, or by an agent that was killed."""
    left = down(WEB2, "b", deployment="d2")
    assert names(V2, here(seen(WEB1, "a"), left, serving=V1)) == ["start web 0"]


def test_a_good_word_about_one_that_does_not_run_is_not_believed() -> None:
    dead = seen(WEB2, "b", "healthy", running=False, deployment="d2")
    assert isinstance(next_step(V2, here(seen(WEB1, "a"), dead, serving=V1, tried={"b"})), Fail)


def test_one_failing_newcomer_is_enough_whatever_the_others_still_do() -> None:
    target = guest(WEB2, DB2, deployment="d2")
    sick, slow = seen(WEB2, "b", "failed"), made(DB2, "c")
    old = seen(DB1, "d")
    assert isinstance(next_step(target, here(sick, slow, old, serving=guest(WEB1, DB1), tried={"b"})), Fail)


def test_a_component_that_was_ill_before_does_not_stop_its_own_repair() -> None:
    """Its cure may be the very thing that is deployed beside it."""
    before, target = guest(WEB1, part("job", "1")), guest(WEB1, part("job", "2"), deployment="d2")
    ill, new = seen(WEB1, "a", "unhealthy"), seen(target.parts[1], "k", deployment="d2")
    assert next_step(target, here(ill, new, serving=before)) == Switch()


def test_a_new_replica_of_an_old_spec_is_a_newcomer_like_any_other() -> None:
    two = guest(replace(WEB1, replicas=2), deployment="d2")
    sick = seen(WEB1, "b", "failed", replica=1, deployment="d2")
    assert isinstance(next_step(two, here(seen(WEB1, "a"), sick, serving=V1, tried={"b"})), Fail)


def test_a_newcomer_that_was_made_but_would_not_start_is_never_switched_to() -> None:
    stuck = made(WEB2, "b", deployment="d2")
    assert isinstance(next_step(V2, here(seen(WEB1, "a"), stuck, serving=V1, tried={"b"})), Fail)


def test_the_way_back_removes_the_newcomers_and_leaves_the_old_as_it_is() -> None:
    old, sick = seen(WEB1, "a"), seen(WEB2, "b", "failed", deployment="d2")
    back = here(old, sick, serving=V1, routed={"a"}, failed="d2")
    assert next_steps(V1, back) == (Stop(sick.container, "failed"),)
    assert next_steps(V1, back)[0].name == "stop failed web 0"
    gone = here(old, down(WEB2, "b", deployment="d2"), serving=V1, routed={"a"}, failed="d2")
    assert names(V1, gone) == ["remove failed web 0"]
    assert names(V1, here(old, serving=V1, routed={"a"}, failed="d2")) == []


def test_the_way_back_of_data_stops_the_newcomer_before_the_old_is_started_again() -> None:
    before = guest(DB1)
    old, sick = down(DB1, "a"), seen(DB2, "b", "failed", deployment="d2")
    assert names(before, here(old, sick, serving=before, failed="d2")) == ["stop failed db 0"]
    stopped = down(DB2, "b", deployment="d2")
    crashed = replace(stopped, returns=True)
    assert names(before, here(old, crashed, serving=before, failed="d2")) == ["stop failed db 0"]
    assert names(before, here(old, stopped, serving=before, failed="d2")) == ["start db 0"]
    coming = seen(DB1, "a", "starting")
    assert names(before, here(coming, stopped, serving=before, failed="d2")) == ["remove failed db 0"]
    assert names(before, here(coming, serving=before, failed="d2")) == ["healthy db 0"]


def test_the_way_back_fails_nothing_and_runs_no_hook_again() -> None:
    web = part(pre_deploy=("migrate",))
    ill = here(seen(web, "a", "failed"), serving=guest(web), failed="d2")
    assert next_step(guest(web), ill) is None


def test_a_first_deploy_that_failed_goes_back_to_nothing() -> None:
    sick = seen(WEB2, "b", "failed", deployment="d2")
    assert names(None, here(sick, failed="d2")) == ["stop web 0"]
    assert names(None, here(down(WEB2, "b"), failed="d2")) == ["remove web 0"]


# ---- in place -------------------------------------------------------------------------------------------------------


BEFORE, AFTER = guest(WEB1, DB1), guest(WEB2, DB2, deployment="d2")


def test_a_part_with_data_is_replaced_only_after_everything_beside_it_is_healthy() -> None:
    old = (seen(WEB1, "a"), seen(DB1, "b"))
    fresh = made(DB2, "d", deployment="d2")
    slow = here(*old, seen(WEB2, "c", "starting", deployment="d2"), fresh, serving=BEFORE, tried={"c"})
    assert names(AFTER, slow) == ["healthy web 0"]
    ready = here(*old, seen(WEB2, "c", deployment="d2"), fresh, serving=BEFORE, tried={"c"})
    assert names(AFTER, ready) == ["stop old db 0"]


def test_data_is_copied_before_the_old_writer_is_stopped_n12() -> None:
    """Only what changes after that is left for the time in which nothing serves."""
    target, old = guest(DB2, deployment="d2"), seen(DB1, "b")
    fresh = made(DB2, "d", deployment="d2")
    assert next_steps(target, here(old, fresh, serving=guest(DB1), owed={"db"})) == (CopyAhead(DB2),)
    ahead = here(old, fresh, serving=guest(DB1), owed={"db"}, ahead={"db"})
    assert names(target, ahead) == ["stop old db 0"]
    assert names(target, here(old, fresh, serving=guest(DB1))) == ["stop old db 0"], "no checkpoint, no copy"


def test_the_first_copy_says_how_many_checkpoints_follow() -> None:
    log = part("log", "2", volume="log")
    target = guest(DB2, log, deployment="d2")
    fresh = (made(DB2, "d", deployment="d2"), made(log, "e", deployment="d2"))
    assert next_steps(target, here(*fresh, owed={"db", "log"})) == (CopyAhead(DB2, more=1),)


def test_data_is_copied_between_the_old_writer_and_the_new() -> None:
    target = guest(DB2, deployment="d2")
    stopped, fresh = down(DB1, "b"), made(DB2, "d", deployment="d2")
    owing = here(stopped, fresh, serving=guest(DB1), owed={"db"}, ahead={"db"})
    assert next_steps(target, owing) == (Checkpoint(DB2),)
    copied = here(stopped, fresh, serving=guest(DB1))
    assert next_steps(target, copied) == (Start(fresh.container, DB2),)


def test_data_is_copied_before_a_new_writer_starts_whatever_containers_there_are_x01() -> None:
    """After an undeploy no container of the old deployment is left to compare with."""
    fresh = made(DB2, "d", deployment="d2")
    target = guest(DB2, deployment="d2")
    assert next_steps(target, here(fresh, owed={"db"}, ahead={"db"})) == (Checkpoint(DB2),)
    assert next_steps(target, here(fresh)) == (Start(fresh.container, DB2),)


def test_a_container_that_stays_is_stopped_for_the_checkpoint_of_a_new_hook_x01() -> None:
    """Only a hook, a schedule or a health command changed: the container is the same, and writes while it runs."""
    target, running = guest(DB1, deployment="d2"), seen(DB1, "b")
    assert names(target, here(running, serving=guest(DB1), owed={"db"}, ahead={"db"})) == ["stop old db 0"]
    stopped = here(down(DB1, "b"), serving=guest(DB1), owed={"db"}, ahead={"db"})
    assert next_steps(target, stopped) == (Checkpoint(DB1),)
    assert names(target, here(down(DB1, "b"), serving=guest(DB1))) == ["start db 0"]


def test_a_component_that_shares_the_data_is_stopped_for_its_checkpoint_too() -> None:
    api = part("api", "1", volume="book")
    db = part("db", "1", volume="book")
    target, both = guest(db, api, deployment="d2"), (seen(db, "b"), seen(api, "x"))
    assert names(target, here(*both, serving=guest(db, api), owed={"db"}, ahead={"db"})) == [
        "stop old api 0",
        "stop old db 0",
    ]


def test_what_serves_is_not_stopped_for_a_checkpoint_but_copied_before_it_is_started_again() -> None:
    """Its writers are unknown, because its passport was lost: it has the data already."""
    target = guest(DB1)
    assert names(target, here(seen(DB1, "b"), serving=guest(DB1), owed={"db"})) == []
    assert names(target, here(down(DB1, "b"), serving=guest(DB1), owed={"db"}, ahead={"db"})) == ["checkpoint db"]


def test_no_checkpoint_is_made_for_a_writer_that_is_known_for_no_data_or_on_the_way_back() -> None:
    one, two = part("job", "1", recreate=True), part("job", "2", recreate=True)
    no_data = here(down(one, "b"), made(two, "d"), serving=guest(one))
    assert names(guest(two, deployment="d2"), no_data) == ["start job 0"]
    back = here(down(DB1, "b"), down(DB2, "d"), serving=guest(DB1), failed="d2")
    assert names(guest(DB1), back) == ["start db 0"]


def test_parts_with_data_are_replaced_one_after_the_other() -> None:
    api1, api2 = part("api", "1", volume="files"), part("api", "2", volume="files")
    before, target = guest(DB1, api1), guest(DB2, api2, deployment="d2")
    old_api, new_api = seen(api1, "x"), made(api2, "y", deployment="d2")
    db = (down(DB1, "b"), seen(DB2, "d", "starting", deployment="d2"))
    first = here(*db, old_api, new_api, serving=before, tried={"d"})
    assert names(target, first) == ["healthy db 0"]
    second = here(down(DB1, "b"), seen(DB2, "d", deployment="d2"), old_api, new_api, serving=before, tried={"d"})
    assert names(target, second) == ["stop old api 0"]


def test_the_old_writer_is_not_stopped_for_one_that_cannot_even_be_made() -> None:
    assert names(guest(DB2, deployment="d2"), here(seen(DB1, "b"), serving=guest(DB1))) == ["create db 0"]


def test_a_part_that_asks_for_it_is_replaced_in_place_without_data_too() -> None:
    one, two = part("job", "1", recreate=True), part("job", "2", recreate=True)
    picture = here(seen(one, "a"), made(two, "b"), serving=guest(one))
    assert names(guest(two, deployment="d2"), picture) == ["stop old job 0"]


def test_an_old_writer_that_the_runtime_may_bring_back_is_stopped_too() -> None:
    crashed = seen(DB1, "b", "starting", running=False)
    picture = here(crashed, made(DB2, "d"), serving=guest(DB1))
    assert names(guest(DB2, deployment="d2"), picture) == ["stop old db 0"]


@pytest.mark.parametrize("serving", [guest(DB1), None], ids=["known", "journal lost"])
def test_a_renamed_component_does_not_write_beside_the_one_it_was(serving: Guest | None) -> None:
    renamed = part("api", "1", volume="data")
    picture = here(seen(DB1, "b"), made(renamed, "x"), serving=serving)
    assert names(guest(renamed, deployment="d2"), picture) == ["stop old db 0"]


def test_a_part_with_other_directories_is_none_of_its_business() -> None:
    other = part("api", "1", volume="files")
    picture = here(seen(DB1, "b"), made(other, "x"), serving=guest(DB1))
    assert names(guest(other, deployment="d2"), picture) == ["start api 0"]


def test_a_directory_inside_another_is_shared_and_one_with_a_longer_name_is_not() -> None:
    inside, beside = part("api", volume="data/sub"), part("api", volume="data2")
    for target, first in ((inside, "stop old db 0"), (beside, "start api 0")):
        picture = here(seen(DB1, "b"), made(target, "x"), serving=guest(DB1))
        assert names(guest(target, deployment="d2"), picture) == [first]


def test_a_stranger_that_may_write_into_the_data_is_not_joined() -> None:
    """W10: what this agent did not make is not its to stop; two writers never share a volume."""
    stranger = container(DB1, "s")
    step = next_step(guest(DB2, deployment="d2"), here(strangers=(stranger,)))
    assert isinstance(step, Fail) and (step.container, step.why) == (stranger, rollout.STRANGER)
    assert next_step(guest(DB1), here(down(DB1, "b"), serving=guest(DB1), strangers=(stranger,))) is None
    dead = replace(stranger, running=False)
    assert next_step(guest(DB1), here(down(DB1, "b"), serving=guest(DB1), strangers=(dead,))) is not None
    assert next_step(V2, here(strangers=(stranger,))) == Create(WEB2, 0), "no data, no danger"


# ---- at rest, and coming back to it ---------------------------------------------------------------------------------


def test_a_container_that_crashed_later_is_simply_started_again() -> None:
    """T-06 stage 2, H-23"""
    assert names(V1, here(down(WEB1, "a"), serving=V1)) == ["start web 0"]
    assert names(V1, here(made(WEB1, "a"), serving=V1)) == ["start web 0"]
    assert names(V1, here(down(WEB1, "a"), serving=V1, tried={"a"})) == [], "back-off is decided elsewhere"
    runtime_does_it = seen(WEB1, "a", "starting", running=False)
    assert names(V1, here(runtime_does_it, serving=V1)) == ["healthy web 0"]


def test_one_that_runs_and_is_unhealthy_is_left_running() -> None:
    assert next_step(V1, here(seen(WEB1, "a", "unhealthy"), serving=V1)) is None


def test_a_container_that_is_gone_is_made_again() -> None:
    assert next_step(V1, here(serving=V1)) == Create(WEB1, 0)


def test_routes_follow_health_and_a_crash_of_the_only_one_changes_nothing() -> None:
    two = guest(replace(WEB1, replicas=2))
    a = seen(WEB1, "a")
    for health, switches in (("unhealthy", True), ("failed", True), ("starting", False), ("healthy", False)):
        picture = here(a, seen(WEB1, "b", health, replica=1), serving=two, routed={"a", "b"})  # type: ignore[arg-type]
        assert (next_step(two, picture) == Switch()) is switches, health
    newcomer = here(a, seen(WEB1, "b", "starting", replica=1), serving=two, routed={"a"})
    assert isinstance(next_step(two, newcomer), AwaitHealthy), "one that had no route gets it when it is healthy"
    only = here(down(WEB1, "a"), serving=V1, routed={"a"}, tried={"a"})
    assert next_step(V1, only) is None


def test_lost_routes_are_set_again_without_waiting_for_anybody() -> None:
    """M-116"""
    two = guest(WEB1, part("job"))
    picture = here(seen(WEB1, "a"), seen(two.parts[1], "j", "starting"), serving=two, routed=())
    assert next_step(two, picture) == Switch()


def test_of_two_containers_in_one_place_the_better_is_kept() -> None:
    """After a lost journal."""
    for better in (seen(WEB1, "z"), seen(WEB1, "z", "starting")):
        picture = here(down(WEB1, "a"), better, serving=V1)
        assert names(V1, picture) == ["remove old web 0"]
        assert next_steps(V1, picture)[0] == Remove(down(WEB1, "a").container, "old")
    one_well = here(seen(WEB1, "a", "starting"), seen(WEB1, "z"), serving=V1)
    assert next_step(V1, one_well) == Stop(seen(WEB1, "a").container, "old")
    both = here(seen(WEB1, "a"), seen(WEB1, "z"), serving=V1, routed={"z"})
    assert next_step(V1, both) == Drain((seen(WEB1, "a").container,)), "the one with the route"


def test_two_writers_in_one_place_are_made_one_before_anything_else_happens_to_them() -> None:
    both = here(seen(DB1, "a"), seen(DB1, "b", "starting"), serving=guest(DB1))
    assert next_steps(guest(DB1), both) == (Stop(seen(DB1, "b").container, "old"),)


def test_replicas_and_components_that_left_the_file_go_last() -> None:
    before = guest(replace(WEB1, replicas=2), part("job"))
    kept, extra = seen(WEB1, "a"), seen(WEB1, "b", replica=1)
    job = seen(before.parts[1], "j")
    target = guest(WEB1, deployment="d2")
    assert next_step(target, here(kept, extra, job, serving=before)) == Switch()
    assert names(target, here(kept, extra, job, serving=target)) == ["stop old job 0", "stop old web 1"]


def test_one_that_goes_is_drained_also_when_it_is_ill_and_stopped_also_when_it_may_come_back() -> None:
    ill, new = seen(WEB1, "a", "unhealthy"), seen(WEB2, "b")
    assert next_step(V2, here(ill, new, serving=V2, routed={"b"})) == Drain((ill.container,))
    crashed = seen(WEB1, "a", "starting", running=False)
    assert names(V2, here(crashed, new, serving=V2, routed={"b"})) == ["stop old web 0"]


def test_an_old_container_that_a_restarted_agent_has_not_judged_yet_is_drained() -> None:
    """The agent died between the switch and the drain: long requests may still be under way in the old one."""
    unjudged, new = seen(WEB1, "a", health="starting"), seen(WEB2, "b")
    assert next_step(V2, here(unjudged, new, serving=V2, routed={"b"})) == Drain((unjudged.container,))
    never = seen(WEB1, "a", health="failed")
    assert next_step(V2, here(never, new, serving=V2, routed={"b"})) == Stop(never.container, "old")


def test_a_network_that_nobody_needs_any_more_is_removed_last() -> None:
    assert next_step(V1, here(seen(WEB1, "a"), serving=V1, networks={"n"})) == RemoveNetwork("n")
    member = part(network="n")
    assert next_step(guest(member), here(seen(member, "a"), serving=guest(member), networks={"n"})) is None


# ---- off, and gone --------------------------------------------------------------------------------------------------


def held(target: Guest, picture: Here) -> tuple[Guest, Here]:
    return target, replace(picture, held=True)


def inactive(target: Guest, picture: Here) -> tuple[Guest, Here]:
    return replace(target, active=False), picture


@pytest.mark.parametrize("off", [held, inactive])
def test_a_service_that_is_off_is_stopped_and_keeps_its_containers(
    off: Callable[[Guest, Here], tuple[Guest, Here]],
) -> None:
    """C-30, D-18"""
    running = here(seen(WEB1, "a"), serving=V1, routed={"a"})
    assert next_steps(*off(V1, running)) == (Unroute(),)
    unrouted = here(seen(WEB1, "a"), serving=V1, routed=())
    assert next_steps(*off(V1, unrouted)) == (Drain((seen(WEB1, "a").container,)),)
    drained = here(seen(WEB1, "a"), serving=V1, routed=(), drained={"a"})
    assert names(*off(V1, drained)) == ["stop web 0"]
    stopped = here(down(WEB1, "a"), down(WEB2, "b"), serving=V1, routed=())
    assert names(*off(V1, stopped)) == [], "neither started nor removed"
    unjudged = here(replace(down(WEB1, "a"), returns=True), serving=V1, routed=())
    assert names(*off(V1, unjudged)) == [], "a restarted agent does not stop again what has no process"
    assert names(*off(V2, here(images=frozenset()))) == [], "and nothing is made for it"


def test_a_retired_service_is_unrouted_drained_stopped_removed_and_its_network_last() -> None:
    """M-85"""
    a, b = seen(WEB1, "a"), down(DB1, "b")
    picture = here(a, b, serving=BEFORE, routed={"a"}, networks={"n"})
    assert next_steps(None, picture) == (Unroute(),)
    assert names(None, replace(picture, routed=frozenset())) == ["drain web 0"]
    drained = replace(picture, routed=frozenset(), drained=frozenset({"a"}))
    assert names(None, drained) == ["stop web 0"]
    stopped = here(down(WEB1, "a"), b, routed=(), networks={"n"})
    assert names(None, stopped) == ["remove db 0", "remove web 0"]
    assert names(None, here(routed=(), networks={"n"})) == ["remove network n"]
    assert names(None, here(routed=())) == []
    assert names(None, here(b, held=True)) == ["remove db 0"], "a hold does not keep it here"
    assert names(None, here(routed=(), listed=True, held=True)) == ["unlist"], "nor its names (N66)"


# ---- the table as a whole -------------------------------------------------------------------------------------------


def test_every_rule_has_its_place_in_one_of_the_orders() -> None:
    rules = {*rollout.ATTEMPT, *rollout.SETTLED, *rollout.RESTING, *rollout.RETIRED}
    fruitless = {rule.__name__ for rule in rules} ^ {
        "_failure", "_stranger", "_pulls", "_networks", "_pre_deploy", "_creations", "_starts_beside",
        "_healthy_beside", "_replaced_in_place", "_unproven", "_switch", "_drain", "_stops", "_removals",
        "_post_deploy", "_unused_networks", "_all_healthy", "_unroute", "_certificates", "_unlist",
    }  # fmt: skip
    assert not fruitless
    for order in (rollout.ATTEMPT, rollout.SETTLED):
        at = [rule.__name__ for rule in order]
        assert at.index("_pulls") < at.index("_creations") < at.index("_starts_beside") < at.index("_switch")
        assert at.index("_switch") == at.index("_certificates") + 1, "no route before its certificate (M-84)"
    assert not {"_stops", "_removals", "_drain"} & {rule.__name__ for rule in rollout.ATTEMPT}
    left = [rule.__name__ for rule in rollout.RETIRED]
    assert left.index("_unroute") < left.index("_stops") < left.index("_unlist"), "I-19: names go after containers"


@pytest.mark.parametrize("of", [WEB1, DB1])
def test_a_step_has_a_name_that_people_read(of: Part) -> None:
    one = container(of, "a")
    component = of.spec.component
    assert [
        step.name
        for step in (
            Pull("x@sha256:0", "hello:2"),
            Hook(of, "pre_deploy"),
            Create(of, 1),
            Start(one, of),
            AwaitHealthy((one, one)),
            Stop(one),
            Stop(one, "old"),
            Checkpoint(of),
            Switch(),
            Unroute(),
            Drain((one,)),
            Remove(one, "failed"),
            RemoveNetwork("n"),
            MakeNetwork("n"),
            Fail(of, one, "why"),
        )
    ] == [
        "pull hello:2",
        f"pre_deploy {component}",
        f"create {component} 1",
        f"start {component} 0",
        f"healthy {component} 0, {component} 0",
        f"stop {component} 0",
        f"stop old {component} 0",
        f"checkpoint {component}",
        "switch",
        "unroute",
        f"drain {component} 0",
        f"remove failed {component} 0",
        "remove network n",
        "network n",
        f"healthy {component} 0",
    ]
