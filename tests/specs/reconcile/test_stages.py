"""The stages of a pass and what is done in each (T-05, T-06, T-33, C-17, C-35, I-25)."""

from msgspec.structs import replace

from holdfast.model.container import Guest
from holdfast.reconcile import drift, stages
from holdfast.reconcile.here import Here
from holdfast.reconcile.stages import STAGE_OF, Look, Stage
from tests.specs.reconcile.guests import down, guest, here, part, seen

WEB1, WEB2, JOB = part(version="1"), part(version="2"), part("job")
V1 = guest(WEB1)
FINE = here(seen(WEB1, "a"), serving=V1)


def stage(target: Guest | None, picture: Here) -> list[tuple[int, tuple[str, ...]]]:
    return [(int(item.stage), item.kinds) for item in stages.work([Look("shop", target, picture)]).work]


def test_there_are_five_stages_in_a_fixed_order_and_each_kind_of_drift_has_one() -> None:
    """T-06"""
    assert [one.name for one in sorted(Stage)] == ["ORPHANS", "START", "DEPLOY", "REDEPLOY", "ROUTES"]
    assert set(STAGE_OF) == set(drift.KINDS) and set(STAGE_OF.values()) == set(Stage)


def test_each_trouble_is_worked_on_in_its_stage() -> None:
    assert stage(None, here(seen(WEB1, "a"))) == [(1, ("orphaned",))]
    assert stage(V1, here(down(WEB1, "a"), serving=V1)) == [(2, ("wrong_state",))]
    assert stage(V1, here()) == [(3, ("missing",))]
    assert stage(V1, here(seen(WEB2, "a"))) == [(4, ("image_mismatch",))]
    assert stage(V1, here(seen(WEB1, "a"), serving=V1, routed=())) == [(5, ("routes",))]
    assert stage(V1, FINE) == []


def test_a_service_is_worked_on_once_in_the_stage_of_its_heaviest_trouble() -> None:
    """What serves until stage 4 is not stopped in stage 1."""
    picture = here(seen(WEB2, "a"), seen(JOB, "j"), seen(WEB1, "b", replica=7))
    assert stage(V1, picture) == [(4, ("orphaned", "image_mismatch"))]
    two = guest(replace(WEB1, replicas=2))
    assert stage(two, here(down(WEB1, "a"), serving=two)) == [(3, ("missing", "wrong_state"))]


def test_work_comes_in_order_of_stage_then_of_name_whatever_order_it_was_found_in() -> None:
    """I-22"""
    looks = [
        Look("d", V1, here(seen(WEB2, "a"))),
        Look("c", V1, here()),
        Look("b", V1, here()),
        Look("a", V1, here(down(WEB1, "a"), serving=V1)),
        Look("z", None, here(seen(WEB1, "a"))),
        Look("r", V1, here(seen(WEB1, "a"), serving=V1, routed=())),
    ]
    order = [(1, "z"), (2, "a"), (3, "b"), (3, "c"), (4, "d"), (5, "r")]
    for found in (looks, looks[::-1]):
        agenda = stages.work(found)
        assert [(int(item.stage), item.service) for item in agenda.work] == order
        assert agenda == stages.work(looks)


def test_a_busy_service_is_left_to_whoever_works_on_it() -> None:
    """C-35, I-26"""
    looks = [Look("shop", V1, here()), Look("blog", V1, here())]
    agenda = stages.work(looks, busy={"shop"})
    assert [item.service for item in agenda.work] == ["blog"]
    assert {one.component for one in agenda.findings} == {"web"} and len(agenda.findings) == 1


def test_a_node_that_only_observes_finds_everything_and_does_nothing() -> None:
    looks = [Look("shop", V1, here()), Look("old", None, here(seen(WEB1, "a")))]
    agenda = stages.work(looks, mode="observe")
    assert agenda.work == ()
    assert agenda.findings == stages.work(looks).findings
    assert [one.kind for one in agenda.findings] == ["missing", "orphaned"]


def test_what_is_in_back_off_is_found_and_not_worked_on() -> None:
    agenda = stages.work([Look("shop", V1, here(down(WEB1, "a"), serving=V1, tried={"a"}))])
    assert [one.kind for one in agenda.findings] == ["wrong_state"] and agenda.work == ()
