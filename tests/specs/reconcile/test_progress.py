"""A pass that changes nothing is not repeated for ever (design.md §2, C-35)."""

from holdfast.reconcile.progress import SAME_MAX, Guard, fingerprint


def test_the_same_steps_on_the_same_world_are_stopped_with_a_reason() -> None:
    guard = Guard()
    for _ in range(SAME_MAX):
        guard = guard.after("a")
        assert guard.reason() is None
    guard = guard.after("a")
    assert guard.reason() == f"the same steps ran {SAME_MAX} times and changed nothing"
    assert Guard().after("a").after("a").reason(at_most=1) is not None


def test_any_progress_starts_the_count_anew() -> None:
    guard = Guard()
    for mark in "aaabaaabaaa":
        guard = guard.after(mark)
        assert guard.reason() is None


def test_a_fingerprint_is_the_world_and_the_steps_in_order() -> None:
    world = [["web", 0, True]]
    assert fingerprint(world, ["start web 0"]) == fingerprint([["web", 0, True]], iter(["start web 0"]))
    others = [
        fingerprint([["web", 0, False]], ["start web 0"]),
        fingerprint(world, ["stop web 0"]),
        fingerprint(world, []),
        fingerprint(world, ["a", "b"]),
        fingerprint(world, ["b", "a"]),
    ]
    assert len({fingerprint(world, ["start web 0"]), *others}) == 6
