"""Every journal keeps the same promises: what begins is known before it begins, what was used stays used."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.journal.sqlite import KEPT_OPERATIONS, SqliteJournal
from holdfast.adapters.sqlite.agent_file import AgentFile
from holdfast.errors import Corrupt, HoldfastError
from holdfast.model.journal import Operation, OrderUse, StepRecord
from holdfast.model.order import COUNTER_WINDOW, OrderResult
from holdfast.ports.journal import Journal

Again = Callable[[], Journal]


@pytest.fixture(params=["memory", "sqlite"])
def again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Again]:
    """The journal, as the next process finds it; the one before was simply gone."""
    memory = MemoryJournal()
    opened: list[SqliteJournal] = []

    def next_process() -> Journal:
        if request.param == "memory":
            return memory
        opened.append(SqliteJournal(AgentFile(str(tmp_path / "agent.db"))))
        return opened[-1]

    yield next_process
    for journal in opened:
        journal.close()


def operation(name: str, order: str = "", attempt: int = 1) -> Operation:
    return Operation(name, "purge", "web", 1.0, {"signed": "x"}, order, attempt)


def use(number: int, **changed: object) -> OrderUse:
    values = {"id": f"id-{number}", "counter": number, "nonce": f"nonce-{number}", "expires_s": 100}
    return OrderUse(**(values | changed))  # type: ignore[arg-type]


def done(order: str, attempt: int = 1) -> OrderResult:
    return OrderResult(order, attempt, "done", message="it is gone", finished_s=2.0)


def test_an_operation_is_written_step_by_step_and_found_by_the_next_process(again: Again) -> None:
    """V-44"""
    journal = again()
    assert journal.begin(operation("one", "id-1"), use(1))
    journal.step("one", "found", 1.5, "/srv/web")
    journal.step("one", "condemned", 1.6)
    (entry,) = again().unfinished()
    assert (entry.operation, entry.outcome, entry.result) == (operation("one", "id-1"), None, None)
    assert [(step.name, step.note) for step in entry.steps] == [("found", "/srv/web"), ("condemned", "")]
    again().finish("one", "done", done("id-1"))
    assert again().unfinished() == []
    (entry,) = again().entries()
    assert (entry.outcome, entry.result) == ("done", done("id-1"))
    assert again().result_of("id-1") == done("id-1")
    assert again().result_of("") is None and again().result_of("id-2") is None
    assert again().check() == []


def test_the_first_outcome_stays(again: Again) -> None:
    journal = again()
    journal.begin(operation("one", "id-1"))
    journal.finish("one", "done", done("id-1"))
    journal.finish("one", "failed", OrderResult("id-1", 2, "failed"))
    assert again().result_of("id-1") == done("id-1")


@pytest.mark.parametrize("shared", [{"id": "id-1"}, {"counter": 1}, {"nonce": "nonce-1"}])
def test_an_order_is_used_once_by_any_of_its_marks(again: Again, shared: dict[str, object]) -> None:
    """S08, D29: id, counter, nonce; refused means nothing was written."""
    assert again().begin(operation("one"), use(1))
    assert not again().begin(operation("two"), use(2, **shared))
    assert [entry.operation.id for entry in again().entries()] == ["one"]
    assert again().used_counter(1) and not again().used_counter(2)
    assert again().highest_counter() == 1


def test_an_order_that_changes_nothing_is_used_up_without_an_entry(again: Again) -> None:
    """ADR 0020: the counter counts for both kinds of use."""
    assert again().use(use(1)) and again().begin(operation("two"), use(2))
    for shared in ({"id": "id-1"}, {"counter": 1}, {"nonce": "nonce-2"}, {"counter": 2 - COUNTER_WINDOW}):
        assert not again().use(use(3, **shared))
    assert not again().begin(operation("three"), use(3, nonce="nonce-1"))
    assert [entry.operation.id for entry in again().entries()] == ["two"] and again().highest_counter() == 2


def test_counters_come_in_any_order_within_the_window_and_never_behind_it(again: Again) -> None:
    """W16"""
    journal = again()
    assert journal.begin(operation("high"), use(3000))
    assert journal.begin(operation("near"), use(3000 - COUNTER_WINDOW + 1))
    assert not journal.begin(operation("far"), use(3000 - COUNTER_WINDOW))
    assert again().highest_counter() == 3000


def test_results_are_sent_until_somebody_has_them(again: Again) -> None:
    journal = again()
    for number in range(3):
        journal.begin(operation(f"op-{number}", f"id-{number}"))
        journal.finish(f"op-{number}", "done", done(f"id-{number}"))
    journal.begin(operation("own"))
    journal.finish("own", "compensated")
    assert [result.id for result in again().unsent(2)] == ["id-0", "id-1"]
    journal.taken(["id-0", "id-2", "id-unknown", ""])
    assert [result.id for result in again().unsent(10)] == ["id-1"]
    assert again().result_of("id-0") == done("id-0")


def test_small_facts_survive(again: Again) -> None:
    journal = again()
    assert journal.fact("floor") is None
    journal.set_aside("floor", b"1")
    journal.set_aside("floor", b"2")
    assert again().fact("floor") == b"2"


def test_what_was_made_here_is_known_and_what_was_not_is_not(again: Again) -> None:
    """W10, I-04"""
    journal = again()
    journal.note_made("/srv/web", "one", scratch=False)
    journal.note_made("/srv/tmp", "two", scratch=True)
    assert (again().made_by("/srv/web"), again().is_scratch("/srv/web")) == ("one", False)
    assert (again().made_by("/srv/tmp"), again().is_scratch("/srv/tmp")) == ("two", True)
    assert again().made_by("/srv") is None and not again().is_scratch("/srv/other")
    journal.forget_made("/srv/web")
    assert again().made_by("/srv/web") is None


def test_what_an_operation_is_about_to_make_is_known_as_soon_as_the_operation_is(again: Again) -> None:
    """W10: no moment in which a container exists and nobody wrote down whose it is."""
    assert again().begin(operation("one"), use(1), makes=["container:hf-a", "container:hf-b"])
    assert [again().made_by(f"container:hf-{x}") for x in "abc"] == ["one", "one", None]
    assert not again().is_scratch("container:hf-a")
    again().forget_made("container:hf-a")
    again().forget_made("container:hf-a")
    assert (again().made_by("container:hf-a"), again().made_by("container:hf-b")) == (None, "one")


def test_an_order_that_is_refused_claims_nothing(again: Again) -> None:
    """S08: nothing written means none of its names either."""
    assert again().begin(operation("one"), use(1), makes=["mine"])
    assert not again().begin(operation("two"), use(1), makes=["mine", "other"])
    assert (again().made_by("mine"), again().made_by("other")) == ("one", None)


def test_what_is_made_anew_belongs_to_the_newer_operation_and_is_scratch_no_more(again: Again) -> None:
    again().note_made("name", "one", scratch=True)
    again().begin(operation("two"), makes=["name"])
    assert (again().made_by("name"), again().is_scratch("name")) == ("two", False)


def test_several_steps_at_once_come_in_their_order_behind_the_others(again: Again) -> None:
    again().begin(operation("one"))
    again().step("one", "first", 1.0)
    again().steps("one", [StepRecord("second", 2.0, "x"), StepRecord("third", 3.0)])
    again().steps("one", [])
    again().step("one", "fourth", 4.0)
    (entry,) = again().unfinished()
    assert [(s.name, s.at_s, s.note) for s in entry.steps] == [
        ("first", 1.0, ""), ("second", 2.0, "x"), ("third", 3.0, ""), ("fourth", 4.0, ""),
    ]  # fmt: skip


def test_facts_are_found_by_how_their_name_begins(again: Again) -> None:
    for name in ("hold:web", "hold:db", "hold", "Hold:x", "holdall", "serving:web", "hold:%"):
        again().set_aside(name, name.encode())
    assert list(again().facts("hold:").items()) == [(n, n.encode()) for n in ("hold:%", "hold:db", "hold:web")]
    assert list(again().facts("hold:%")) == ["hold:%"] and again().facts("none:") == {}
    assert len(again().facts("")) == 7


def test_a_dropped_fact_is_gone_and_the_others_are_not(again: Again) -> None:
    for name in ("hold:db", "hold:web", "hold:web2"):
        again().set_aside(name, b"1")
    again().drop_fact("hold:web")
    again().drop_fact("hold:web")
    assert again().fact("hold:web") is None and list(again().facts("hold:")) == ["hold:db", "hold:web2"]


def test_newest_first_and_no_more_than_asked(again: Again) -> None:
    journal = again()
    for number in range(5):
        journal.begin(operation(f"op-{number}"))
    assert [entry.operation.id for entry in again().entries(2)] == ["op-4", "op-3"]
    assert again().entries(0) == []


def test_old_finished_operations_are_forgotten_but_none_that_matters(tmp_path: Path) -> None:
    journal = SqliteJournal(file := AgentFile(str(tmp_path / "agent.db")))
    journal.begin(operation("under way"))
    journal.begin(operation("unsent", "id-u"))
    journal.finish("unsent", "done", done("id-u"))
    with file.transaction() as db:
        db.executemany(
            "INSERT INTO operations (id, body, order_id, outcome) VALUES (?, ?, '', 'done')",
            [(f"old-{n}", b"{}") for n in range(KEPT_OPERATIONS + 50)],
        )
    journal.begin(operation("last"))
    ids = {str(row[0]) for row in file.rows("SELECT id FROM operations")}
    assert {"under way", "unsent", "last"} <= ids and "old-0" not in ids
    assert len(ids) <= KEPT_OPERATIONS + 3
    journal.close()


def test_the_file_is_private_and_flushed(tmp_path: Path) -> None:
    file = AgentFile(str(tmp_path / "agent.db"))
    journal = SqliteJournal(file)
    journal.begin(operation("one"))
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert file.rows("PRAGMA synchronous")[0][0] == 2 and file.rows("PRAGMA journal_mode")[0][0] == "wal"
    journal.close()
    with pytest.raises(HoldfastError):
        journal.begin(operation("two"))


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be looked at" * 40, b"\0" * 8192])
def test_something_else_in_its_place_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "agent.db").write_bytes(content)
    with pytest.raises(Corrupt) as trouble:
        AgentFile(str(tmp_path / "agent.db"))
    assert "agent join" in trouble.value.remedy


def test_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    file = AgentFile(str(tmp_path / "agent.db"))
    with file.transaction() as db:
        db.pragma("user_version", 99)
    file.close()
    with pytest.raises(Corrupt, match="99"):
        AgentFile(str(tmp_path / "agent.db"))


def test_a_damaged_row_is_named_by_check(tmp_path: Path) -> None:
    file = AgentFile(str(tmp_path / "agent.db"))
    journal = SqliteJournal(file)
    journal.begin(operation("one"))
    with file.transaction() as db:
        db.execute("UPDATE operations SET body = x'7b'")
        db.execute("INSERT INTO steps VALUES ('ghost', 1, x'7b7d')")
    assert len(journal.check()) == 2
    journal.close()
