"""The hub over HTTP: what is applied is served, commits move it, and nothing else does (C-16, I-05, I-07)."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
from holdfast.errors import Corrupt
from holdfast.hub import daemon
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model.revision import Candidate, Head
from holdfast.ports.ledger_store import Transaction
from holdfast.wire import codec, messages
from tests.fleets.build import START_S, commit, grown_mailbox, mailbox, next_candidate, small_fleet
from tests.fleets.serving import Served, connected, get, parts_of, post, reply, running, served
from tests.fleets.waiting import Stopwatch, wait_until

READS = (
    "/healthz",
    "/openapi.json",
    "/v1/head",
    "/v1/applied",
    "/v1/history",
    "/v1/revisions/1",
    "/v1/links?first=1&last=1",
    "/v1/observations",
    "/v1/status",
    "/v1/damaged",
)


def everything(far: Served) -> list[bytes]:
    replies = [get(far, target) for target in READS]
    assert [reply.status for reply in replies] == [200] * len(READS)
    table = far.link().applied()
    assert table is not None
    blobs = [get(far, f"/v1/blobs/{entry.digest}").body for entry in table.table.entries.values()]
    return [reply.body for reply in replies] + blobs


class Slow(Revisions):
    """A mailbox whose commit waits until it is let go."""

    begun: threading.Event
    go: threading.Event

    def commit(self, candidate: Candidate) -> Head:
        self.begun.set()
        assert self.go.wait(60)
        return super().commit(candidate)


def slow_mailbox() -> Slow:
    hub = grown_mailbox(1)
    hub.__class__ = Slow
    assert isinstance(hub, Slow)
    hub.begun, hub.go = threading.Event(), threading.Event()
    return hub


def findings(far: Served) -> list[str]:
    """About the ledger; that nobody joined as w1 is true in every one of these tests."""
    found = [finding["code"] for finding in get(far, "/v1/status").json()["findings"]]
    return [code for code in found if code != "node_not_joined"]


def commit_body(candidate: Candidate) -> bytes:
    return codec.write(messages.commit_request(candidate))


def test_a_commit_through_http_moves_the_head() -> None:
    hub = grown_mailbox(1)
    with served(hub) as far:
        assert get(far, "/v1/head").json()["head"]["number"] == 1
        answer = post(far, "/v1/revisions", commit_body(next_candidate(small_fleet({"web": 2}), hub.applied())))
        assert (answer.status, answer.json()["head"]["number"]) == (200, 2)
        assert get(far, "/v1/head").json()["head"] == answer.json()["head"]
        assert findings(far) == []


def test_of_two_commits_at_once_exactly_one_wins() -> None:
    hub = grown_mailbox(1)
    with served(hub) as far, ThreadPoolExecutor(8) as threads:
        for round_ in range(1, 6):
            bodies = [
                commit_body(next_candidate(small_fleet({"web": 10 * round_ + n}), hub.applied())) for n in range(4)
            ]
            answers = list(threads.map(lambda body: post(far, "/v1/revisions", body), bodies))
            assert sorted(answer.status for answer in answers) == [200, 409, 409, 409]
            assert {a.json()["code"] for a in answers if a.status == 409} == {"stale_base"}
            assert get(far, "/v1/head").json()["head"]["number"] == round_ + 1


def test_commits_are_taken_one_at_a_time() -> None:
    hub = slow_mailbox()
    body = commit_body(next_candidate(small_fleet({"web": 2}), hub.applied()))
    with served(hub) as far, ThreadPoolExecutor(2) as threads:
        first = threads.submit(post, far, "/v1/revisions", body)
        assert hub.begun.wait(60)
        hub.begun.clear()
        second = threads.submit(post, far, "/v1/revisions", body)
        assert not hub.begun.wait(0.5), "the second was let in while the first was being written"
        hub.go.set()
        assert [first.result().status, second.result().status] == [200, 409]


def test_reading_does_not_wait_for_a_commit() -> None:
    hub = slow_mailbox()
    body = commit_body(next_candidate(small_fleet({"web": 2}), hub.applied()))
    with served(hub) as far, ThreadPoolExecutor(1) as threads:
        writing = threads.submit(post, far, "/v1/revisions", body)
        assert hub.begun.wait(60)
        watch = Stopwatch()
        assert [get(far, target).status for target in READS] == [200] * len(READS)
        assert watch.within(3)
        hub.go.set()
        assert writing.result().status == 200


def test_a_hub_told_to_stop_finishes_the_commit_that_runs() -> None:
    hub = slow_mailbox()
    body = commit_body(next_candidate(small_fleet({"web": 2}), hub.applied()))
    with ThreadPoolExecutor(2) as threads:
        with served(hub) as far:
            writing = threads.submit(post, far, "/v1/revisions", body)
            assert hub.begun.wait(60)
            threading.Timer(0.5, hub.go.set).start()
        assert writing.result().status == 200
    assert hub.status().head.number == 2


def test_a_hub_told_to_stop_closes_idle_connections_and_its_door() -> None:
    with served(grown_mailbox(1)) as far:
        idle = [connected(far) for _ in range(20)]
        for line in idle[:10]:
            line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert reply(line).status == 200
        watch = Stopwatch()
    assert watch.within(2)
    with pytest.raises(ConnectionError):
        connected(far)
    for line in idle:
        line.close()


def test_a_hub_told_to_stop_holds_nobody_any_longer() -> None:
    """A check-in may be held for a minute; stopping takes none."""
    mail = mailbox()
    head = commit(mail, small_fleet())
    with ThreadPoolExecutor(1) as threads:
        with served(mail) as far:
            w1 = far.joined("w1")
            held = threads.submit(far.check_in, w1, "w1", seen=head, wait_s=60.0)
            wait_until(lambda: far.parts.fleet.watched.members["w1"].bell.is_held, "its check-in is held")
            assert not held.done()
            watch = Stopwatch()
        assert watch.within(2)
        assert held.result(60).status == 0


def test_a_check_in_is_held_past_every_idle_clock() -> None:
    mail = mailbox()
    head = commit(mail, small_fleet())
    with served(mail) as far:
        w1 = far.joined("w1")
        watch = Stopwatch()
        assert far.check_in(w1, "w1", seen=head, wait_s=6.5).status == 200
        assert watch.wall_s > 6 and watch.within(9)


def test_editing_the_fleet_directory_changes_no_answer(tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "fleet.toml").write_text('[fleet]\nname = "small"\n')
    (tmp_path / "services" / "web.toml").write_text('[[components]]\nname = "main"\nimage = "a:1"\n')
    store = SqliteStore.open(str(tmp_path / "ledger.db"), create=True)
    with served(grown_mailbox(2, store)) as far:
        before = everything(far)
        (tmp_path / "services" / "web.toml").write_text("this is not TOML [[[")
        (tmp_path / "fleet.toml").unlink()
        assert everything(far) == before
    store.close()


def test_a_commit_behind_the_hubs_back_is_reported_and_not_followed(tmp_path: Path) -> None:
    clock = VirtualClock(START_S)
    store = SqliteStore.open(str(tmp_path / "ledger.db"), create=True)
    hub = grown_mailbox(1, store, clock)
    other_store = SqliteStore.open(str(tmp_path / "ledger.db"), create=False)
    with served(hub) as far:
        served_before = [get(far, target).body for target in ("/v1/head", "/v1/applied", "/v1/revisions/1")]
        body = commit_body(next_candidate(small_fleet({"web": 5}), hub.applied()))
        commit(mailbox(other_store, clock), small_fleet({"web": 2}))
        status = get(far, "/v1/status").json()
        assert findings(far) == ["revision_behind"]
        assert (status["serving"]["number"], status["head"]["number"]) == (1, 2)
        refused = post(far, "/v1/revisions", body)
        assert (refused.status, refused.json()["code"]) == (409, "revision_behind")
        assert [get(far, t).body for t in ("/v1/head", "/v1/applied", "/v1/revisions/1")] == served_before
    with served(mailbox(store, clock)) as far:  # what a restart does
        assert findings(far) == []
        assert get(far, "/v1/head").json()["head"]["number"] == 2
    for each in (store, other_store):
        each.close()


class Late(MemoryStore):
    """Has written long before it says so."""

    def commit(self, tx: Transaction) -> int:
        revision = super().commit(tx)
        time.sleep(0.02)
        return revision


def test_the_hubs_own_commit_is_never_reported_as_behind_its_back() -> None:
    hub = grown_mailbox(1, Late())
    stop = threading.Event()
    seen: set[str] = set()

    def look(far: Served) -> None:
        while not stop.is_set():
            seen.update(findings(far))

    with served(hub) as far, ThreadPoolExecutor(2) as threads:
        looking = [threads.submit(look, far) for _ in range(2)]
        for version in range(2, 32):
            commit(hub, small_fleet({"web": version}))
        stop.set()
        for each in looking:
            each.result()
    assert seen == set()


def test_damaged_content_is_never_handed_out(tmp_path: Path) -> None:
    hub = grown_mailbox(1)
    applied = hub.applied()
    assert applied is not None
    digest = applied.table.entries["service.web"].digest
    hub.blob = lambda digest: b"rotten"  # type: ignore[method-assign]
    with served(hub) as far:
        answer = get(far, f"/v1/blobs/{digest}")
    assert (answer.status, answer.json()["code"], answer.headers["holdfast-exit"]) == (409, "blob_damaged", "7")


def test_a_failure_nobody_foresaw_is_an_answer_without_its_insides(caplog: pytest.LogCaptureFixture) -> None:
    hub = grown_mailbox(1)
    hub.observations = lambda: 1 / 0  # type: ignore[assignment,method-assign,return-value]
    with served(hub) as far:
        answer = get(far, "/v1/observations")
        assert get(far, "/v1/head").status == 200
    assert (answer.status, answer.json()["code"]) == (500, "internal")
    assert b"division" not in answer.body
    assert "ZeroDivisionError" in caplog.text


def test_trouble_with_watching_the_fleet_does_not_stop_the_answers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "WATCH_AGAIN_S", 0.01)
    hub = Served(*parts_of(grown_mailbox(1)))
    whole = hub.parts.fleet.loop.run
    failures = iter([Corrupt("a record is damaged", remedy="holdfast hub check"), ZeroDivisionError("nobody foresaw")])

    async def run() -> None:
        for trouble in failures:
            raise trouble
        watched.set()
        await whole()

    watched = threading.Event()
    monkeypatch.setattr(hub.parts.fleet.loop, "run", run)
    with running(hub):
        assert watched.wait(60)
        assert get(hub, "/v1/head").status == 200
    assert "a record is damaged" in caplog.text and "ZeroDivisionError" in caplog.text


def test_a_commit_wakes_exactly_the_nodes_whose_manifest_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    mail = mailbox()
    commit(mail, small_fleet({"web": 1}, nodes=("w1", "w2")))
    heard: list[list[str]] = []
    with served(mail) as far:
        monkeypatch.setattr(far.parts.fleet.watched, "committed", lambda nodes: heard.append(list(nodes)))
        for fleet in (small_fleet({"web": 2}, nodes=("w1", "w2")), small_fleet({"web": 2}, nodes=("w1", "w2", "w3"))):
            assert post(far, "/v1/revisions", commit_body(next_candidate(fleet, mail.applied()))).status == 200
    assert heard == [["w1"], ["w3"]]
