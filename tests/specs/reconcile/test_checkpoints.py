"""Which checkpoints go, when no other is made, and which ones a report lists. N12"""

import msgspec

from holdfast.model.report import CheckpointState, ReportedCheckpoints, UnlistedCheckpoints
from holdfast.ports.storage import Checkpoint, Need
from holdfast.reconcile import checkpoints
from holdfast.reconcile.checkpoints import COUNT_MAX, DETAILED, KEPT_S, LISTED_BYTES, listed

NOW_S = 100 * KEPT_S
GIB = 1 << 30
NEED = Need(3 * GIB, 10, 3 * GIB, 50 * GIB, 100 * GIB, 0)


def made(id: str, age_s: float, size_bytes: int = 5, service: str = "web", files: int = 1) -> Checkpoint:
    return Checkpoint(service, id, f"/srv/.checkpoints/{service}/{id}", size_bytes, NOW_S - age_s, files=files)


def pruned(*found: Checkpoint) -> list[str]:
    return [one.id for one in checkpoints.prunable(found, "web", NOW_S)]


def test_only_checkpoints_that_are_seven_days_old_go_and_never_the_newest() -> None:
    assert pruned(made("a", 3 * KEPT_S), made("b", KEPT_S), made("c", KEPT_S - 1), made("d", 5)) == ["a", "b"]
    assert pruned(made("a", 9 * KEPT_S)) == []
    assert pruned(made("a", 7 * 24 * 3600 - 1), made("b", 1)) == [] and KEPT_S == 7 * 24 * 3600
    assert pruned(made("a", -9 * KEPT_S), made("b", 2 * KEPT_S), made("c", KEPT_S)) == ["b", "c"]


def test_the_last_one_with_content_stays_however_old_it_is() -> None:
    """A bad version wiped the data: the checkpoints after that are empty."""
    empty = made("c", 2 * KEPT_S, 0, files=0), made("d", 1, 0, files=0)
    assert pruned(made("a", 9 * KEPT_S), made("b", 8 * KEPT_S), *empty) == ["a", "c"]
    assert pruned(made("a", 9 * KEPT_S), empty[0]) == [], "nor does the newest one go, with or without content"


def test_checkpoints_of_other_services_are_left_alone() -> None:
    assert pruned(made("x", 9 * KEPT_S, service="db"), made("a", 9 * KEPT_S), made("b", 1)) == ["a"]


def test_at_a_limit_no_checkpoint_is_made_and_the_reason_says_which() -> None:
    few = [made(str(n), 1) for n in range(COUNT_MAX - 1)]
    assert checkpoints.refusal(few, "web", NEED, 1) is None
    assert "999 checkpoints of web are kept on this node, and 1000 is the most" in str(
        checkpoints.refusal(few, "web", NEED, 2)
    )
    assert checkpoints.refusal([*few, made("x", 1, service="db")], "web", NEED, 1) is None
    short = checkpoints.refusal([], "web", Need(3 * GIB, 1, 3 * GIB, 2 * GIB, 100 * GIB, 0), 1)
    assert short == "a checkpoint of web takes 3.0 GiB, and its disk has 2.0 GiB for it"
    assert checkpoints.refusal([], "web", Need(3 * GIB, 1, 3 * GIB, 3 * GIB, 100 * GIB, 0), 1) is None
    two = checkpoints.refusal([], "web", Need(3 * GIB, 1, 3 * GIB, 5 * GIB, 100 * GIB, 0), 2)
    assert two == "a checkpoint of web takes 6.0 GiB, and its disk has 5.0 GiB for it"
    none = checkpoints.refusal([], "web", Need(3 * GIB, 1, 3 * GIB, -GIB, 100 * GIB, 0), 1)
    assert none is not None and none.endswith("its disk has 0 B for it"), "other programs used what is kept free"
    full = checkpoints.refusal([], "web", Need(3 * GIB, 1, 3 * GIB, 50 * GIB, 100 * GIB, 48 * GIB), 1)
    assert full is not None and "48.0 GiB of 100 GiB" in full and "more than half of the disk" in full
    assert checkpoints.refusal([], "web", Need(3 * GIB, 1, 2 * GIB, 50 * GIB, 100 * GIB, 48 * GIB), 1) is None


# ---- listed in a report

IMAGES = ("registry.example.com/shop/web:1@sha256:" + "1" * 64,)


def state(number: int, service: str = "web", images: tuple[str, ...] = IMAGES) -> CheckpointState:
    id = f"{number:016x}-main-0123456789ab"
    return CheckpointState(service, id, 7, 1.7e9 + number, "d" * 16, number, images, "e" * 16, number + 1, images)


def ids(found: ReportedCheckpoints, service: str = "web") -> list[int]:
    return [one.revision for one in found.checkpoints if one.service == service]


def test_a_few_checkpoints_are_listed_whole_in_the_order_of_their_services_and_times() -> None:
    few = [state(number, service) for service in ("api", "web") for number in range(DETAILED)]
    assert listed(few[::-1]) == ReportedCheckpoints(tuple(few))


def test_a_week_of_fifteen_deployments_a_day_is_listed_and_the_older_ones_without_images() -> None:
    found = listed([state(number) for number in range(105)])
    assert ids(found) == list(range(105)) and found.unlisted_checkpoints == ()
    assert [one.images for one in found.checkpoints] == [()] * (105 - DETAILED) + [IMAGES] * DETAILED
    assert found.checkpoints[0].before == "e" * 16 and found.checkpoints[0].before_revision == 1
    assert len(msgspec.json.encode(found)) < 24 * 1024


def test_of_many_the_newest_of_each_service_are_listed_and_the_others_counted() -> None:
    """The list is bounded, whatever is in it."""
    long = ("x" * 500,) * 8
    most = [state(number, service) for service in ("api", "web") for number in range(COUNT_MAX)]
    for many in (
        [*most, state(5, "big", long)],
        [state(number, f"s{at}", long) for at in range(50) for number in (1, 2)],
    ):
        found = listed(many)
        assert len(msgspec.json.encode(found.checkpoints)) <= LISTED_BYTES + 2
        assert len(found.checkpoints) + sum(one.count for one in found.unlisted_checkpoints) == len(many)
    found = listed(most)
    api, web = ids(found, "api"), ids(found)
    assert abs(len(api) - len(web)) <= 1 and len(web) > 150 and web == list(range(COUNT_MAX - len(web), COUNT_MAX))
    left = COUNT_MAX - len(web)
    assert found.unlisted_checkpoints[1] == UnlistedCheckpoints("web", left, 7 * left)
    again = listed(found.checkpoints, found.unlisted_checkpoints, 4096)
    assert sum(one.count for one in again.unlisted_checkpoints) == 2 * COUNT_MAX - len(again.checkpoints)
    assert ids(again)[-1] == COUNT_MAX - 1
