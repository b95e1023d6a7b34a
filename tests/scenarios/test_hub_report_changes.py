"""Who waits for a node's next word sleeps at the hub: woken at once, bounded, and never by asking again and again."""

import asyncio
import threading
import time

import msgspec

from holdfast.adapters.hub_link.http.exchange import Answer
from holdfast.hub.nodes.report_changes import SLEEPERS_MAX, ReportChanges
from holdfast.model import canonical
from holdfast.model.report import PULSE_NAMESPACE, Pulse, Report, SignedPulse
from holdfast.trust import own_signature
from tests.fleets.build import commit, mailbox, next_candidate, small_fleet
from tests.fleets.serving import Machine, Served, get, served
from tests.fleets.virtual import VirtualLoop, run
from tests.fleets.waiting import Stopwatch, wait_until


def test_news_are_held_until_there_are_some_and_name_who_spoke() -> None:
    async def main(loop: VirtualLoop) -> None:
        news = ReportChanges(1_000.0)
        first = await news.after(0, 60.0)
        assert first.missed and loop.time() == 0, "whoever knows nothing has to look at everybody"
        waiting = asyncio.create_task(news.after(first.at, 60.0))
        await asyncio.sleep(5)
        news.note("w1")
        heard = await waiting
        assert (heard.nodes, heard.missed, loop.time()) == (("w1",), False, 5.0)
        news.note("w2")
        news.note("w1")
        assert (await news.after(heard.at, 60.0)).nodes == ("w1", "w2"), "what came in between is not lost"
        at = (await news.after(heard.at, 0.0)).at
        assert (await news.after(at, 7.0)).nodes == () and loop.time() == 12.0

    run(main)


def test_numbers_of_another_hub_process_are_not_taken_for_ours() -> None:
    async def main(loop: VirtualLoop) -> None:
        before, after = ReportChanges(1_000.0), ReportChanges(1_001.0)
        for _ in range(20):
            before.note("w1")
        old = (await before.after(0, 0.0)).at
        after.note("w2")
        assert (await after.after(old, 60.0)).missed and (await after.after(10**15, 60.0)).missed
        assert loop.time() == 0

    run(main)


def test_sleepers_are_few() -> None:
    async def main(loop: VirtualLoop) -> None:
        news = ReportChanges(0.0)
        tasks = [asyncio.create_task(news.after(0, 60.0)) for _ in range(SLEEPERS_MAX)]
        await asyncio.sleep(1)
        await news.after(0, 60.0)
        assert loop.time() == 1.0, "one more is answered at once"
        assert all(not task.done() for task in tasks)

    run(main)


def word(hub: Served, machine: Machine, sequence: int) -> dict[str, object]:
    report = msgspec.json.encode(Report(hub.fleet_id, "w1", "1", address=f"100.64.0.{sequence}"))
    pulse = msgspec.json.encode(Pulse(hub.fleet_id, "w1", sequence, time.time(), report=canonical.digest(report)))
    signed = SignedPulse(pulse, own_signature.armoured(machine.key, pulse, PULSE_NAMESPACE))
    return {"pulse": signed, "report": report}


def test_over_http_a_word_wakes_whoever_waits_within_a_few_milliseconds() -> None:
    mail = mailbox()
    commit(mail, small_fleet(("web",), ("w1", "w2")))
    with served(mail) as hub:
        w1 = hub.joined("w1")
        link = hub.link()
        first = link.news(0, 10.0)
        assert first is not None and first.missed
        spoke: list[Stopwatch] = []

        def speak() -> None:
            time.sleep(0.3)
            spoke.append(Stopwatch())
            assert hub.check_in(w1, "w1", **word(hub, w1, 1)).status == 200

        speaking = threading.Thread(target=speak)
        speaking.start()
        heard = link.news(first.at, 10.0)
        woken = spoke[0].within(0.5)
        speaking.join()
        assert heard is not None and heard.nodes == ("w1",) and woken, spoke[0]
        assert [view.name for view in link.nodes_named(("w1",)).nodes] == ["w1"]
        for answer in (link.nodes(), link.nodes_named(("w1", "w2")), link.nodes_named([f"n{n}" for n in range(200)])):
            assert {view.name for view in answer.nodes} == {"w1", "w2"}
        assert hub.check_in(w1, "w1", heartbeat=True).status == 200
        began_s = time.monotonic()
        assert link.news(heard.at, 0.2).nodes == () and time.monotonic() - began_s >= 0.2, "nothing new was said"  # type: ignore[union-attr]


def test_what_is_asked_wrongly_is_refused_and_a_viewer_may_ask() -> None:
    mail = mailbox()
    commit(mail, small_fleet(("web",), ("w1",)))
    with served(mail) as hub:
        for target in (
            "/v1/nodes?names=W1",
            "/v1/nodes?names=w1,,w2",
            "/v1/nodes/news?wait_ms=60001",
            "/v1/nodes/news?after=x",
        ):
            assert get(hub, target).status == 400, target
        assert get(hub, "/v1/nodes/news", hub.token()).json()["missed"] is True
        assert get(hub, "/v1/nodes/news", Machine("w1")).status in (401, 403)


def test_a_hub_that_stops_lets_sleepers_go() -> None:
    mail = mailbox()
    commit(mail, small_fleet(("web",), ("w1",)))
    ended: list[Stopwatch] = []
    with served(mail) as hub:
        at = get(hub, "/v1/nodes/news").json()["at"]
        asking = threading.Thread(target=lambda: get(hub, f"/v1/nodes/news?after={at}&wait_ms=60000"))
        asking.start()
        time.sleep(0.3)
        ended.append(Stopwatch())
    asking.join(60)
    assert not asking.is_alive() and ended[0].within(4)


def test_history_says_which_revisions_converged() -> None:
    mail = mailbox()
    commit(mail, small_fleet((), ("w1",)))
    with served(mail) as hub:
        link = hub.link()
        wait_until(lambda: link.converged(0, 10), "a revision converged")
        assert link.converged(0, 10) == [1], "an empty fleet has nothing that could be missing"
        link.commit(next_candidate(small_fleet(("web",), ("w1",)), mail.applied()))
        page = get(hub, "/v1/history").json()
        assert page["converged"] == [1] and [record["number"] for record in page["revisions"]] == [2, 1]


def test_a_command_that_waits_fetches_no_content_twice() -> None:
    mail = mailbox()
    commit(mail, small_fleet(("web",), ("w1",)))
    with served(mail) as hub:
        link = hub.link()
        asked: list[str] = []
        ask = link.ask

        def counted(method: str, target: str, body: bytes | None) -> Answer:
            asked.append(target)
            return ask(method, target, body)

        link.ask = counted  # type: ignore[method-assign]
        applied = link.applied()
        assert applied is not None
        digest = applied.table.entries["service.web"].digest
        assert applied.contents[digest] == applied.contents[digest] == mail.blob(digest)
        assert [target for target in asked if "blobs" in target] == [f"/v1/blobs/{digest}"]
