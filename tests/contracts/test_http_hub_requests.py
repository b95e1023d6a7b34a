"""How many requests a command needs: asked ahead, one fetch of a revision, writes on a connection just used."""

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from holdfast.adapters.hub_link.http import exchange
from holdfast.adapters.hub_link.http.hub import HttpHub
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.errors import Corrupt, Unreachable
from holdfast.hub.http.handlers.revisions import Revisions
from holdfast.hub.http.handlers.status import Status
from holdfast.model import canonical
from holdfast.model.applied import table_of
from holdfast.model.node_view import NodesAnswer
from holdfast.model.revision import Head
from holdfast.ports.ledger_store import Transaction
from holdfast.wire import codec, faults, messages
from tests.contracts.test_http_hub import PARTS, TRUE, answer, calling, refusing, scripted
from tests.fleets import exchange as handed
from tests.fleets.build import commit, grown_mailbox, next_candidate, small_fleet
from tests.fleets.serving import served

PLAN = ["/v1/applied", "/v1/observations", "/v1/nodes"]
NODES_ANSWER = NodesAnswer((), 0.0)


def said(target: str) -> bytes:
    """A true answer of a hub."""
    answers = {
        "/v1/applied": messages.AppliedAnswer(TRUE, suspect=False),
        "/v1/observations": messages.ObservationsAnswer({}),
        "/v1/nodes": NODES_ANSWER,
        "/v1/head": messages.HeadAnswer(TRUE.head if TRUE is not None else pytest.fail()),
        "/v1/blobs": messages.MendAnswer(1),
        "/v1/damaged": messages.DamagedAnswer(()),
    }
    return answer(codec.write(answers[target]))


NOT_FOUND = answer(codec.write(faults.Fault("not_found", "no such path", "none")), "404 Not Found")


def asked(text: bytes) -> list[str]:
    """Targets of the requests in these bytes."""
    heads = [line.split(b" ") for line in text.split(b"\r\n") if line.endswith(b" HTTP/1.1")]
    return [words[1].decode() for words in heads]


@contextmanager
def conversation(*connections: list[bytes | list[bytes]]) -> Iterator[tuple[HttpHub, list[list[str]]]]:
    """Each connection: what the hub says, one after the other; a list of answers comes after as many requests."""
    heard: list[list[str]] = []

    def speak(line: ssl.SSLSocket, number: int) -> None:
        heard.append([])
        for words in connections[number]:
            answers = words if isinstance(words, list) else [words]
            text = b""
            while len(asked(text)) < len(answers):
                text += line.recv(1 << 20) or b"\r\n" + b"GET closed HTTP/1.1\r\n" * len(answers)
            heard[-1] += asked(text)
            line.sendall(b"".join(answers))

    with scripted(speak, len(connections)) as port:
        hub = calling(port)
        try:
            yield hub, heard
        finally:
            hub.close()


def read_plan(hub: HttpHub) -> None:
    assert hub.applied() is not None
    assert hub.observations() == {}
    assert hub.nodes() == NODES_ANSWER


# ---- asked ahead


def test_what_a_plan_needs_is_asked_for_at_once_on_one_connection() -> None:
    """The hub says nothing before it has all three requests."""
    with conversation([[said(target) for target in PLAN]]) as (hub, heard):
        hub.expect_plan()
        read_plan(hub)
    assert heard == [PLAN]


def test_a_real_hub_answers_what_is_asked_ahead() -> None:
    with served(grown_mailbox(2)) as far:
        hub = far.link()
        hub.expect_plan()
        applied = hub.applied()
        assert applied is not None and applied.head.number == 2
        assert list(hub.observations()) == ["w1"] and hub.nodes().time_s > 0
        hub.close()


def test_a_refusal_of_what_was_asked_ahead_is_learnt_from_by_asking_alone() -> None:
    no = refusing("session_expired")
    with conversation([[no, b"", b""]], [no], [said("/v1/applied")]) as (hub, heard):
        hub.expect_plan()
        assert hub.applied() is not None
    assert heard == [PLAN, ["/v1/applied"], ["/v1/applied"]]


def test_a_hub_that_closes_after_the_first_answer_is_asked_for_the_rest() -> None:
    closing = answer(codec.write(messages.AppliedAnswer(TRUE)), headers="Connection: close\r\n")
    with conversation([[closing, b"", b""]], [said("/v1/observations"), said("/v1/nodes")]) as (hub, heard):
        hub.expect_plan()
        read_plan(hub)
    assert heard == [PLAN, PLAN[1:]]


def test_a_content_is_asked_for_behind_the_rest_and_proven() -> None:
    """The hub says nothing of observations before it has the fourth request."""
    content = b"applied before"
    digest = canonical.digest(content)
    rest = [said("/v1/observations"), said("/v1/nodes"), answer(content)]
    with conversation([[said("/v1/applied"), b"", b""], [b"".join(rest)]]) as (hub, heard):
        hub.expect_plan()
        assert hub.applied() is not None
        hub.expect_content(digest)
        assert hub.observations() == {} and hub.nodes() == NODES_ANSWER
        assert hub.blob(digest) == content
    assert heard == [[*PLAN, f"/v1/blobs/{digest}"]]


def test_a_content_that_is_not_asked_for_in_the_end_answers_nothing_else() -> None:
    first: list[bytes | list[bytes]] = [
        [said("/v1/applied"), b"", b""],
        [said("/v1/observations") + said("/v1/nodes") + answer(b"unused")],
    ]
    with conversation(first, [said("/v1/damaged")]) as (hub, heard):
        hub.expect_plan()
        hub.applied()
        hub.expect_content("0" * 64)
        hub.observations()
        hub.nodes()
        assert hub.damaged() == []
    assert heard[1:] == [["/v1/damaged"]]


def test_another_question_does_not_get_an_answer_that_was_asked_ahead() -> None:
    with conversation([[said(target) for target in PLAN]], [said("/v1/damaged")]) as (hub, heard):
        hub.expect_plan()
        assert hub.damaged() == []
    assert heard == [PLAN, ["/v1/damaged"]]


def test_a_lie_asked_ahead_is_noticed() -> None:
    assert TRUE is not None
    lie = answer(codec.write(messages.AppliedAnswer(msgspec.structs.replace(TRUE, header=b"{}"))))
    with conversation([[lie, b"", b""]]) as (hub, _), pytest.raises(Corrupt):
        hub.expect_plan()
        hub.applied()


# ---- one fetch


def test_an_applied_revision_is_fetched_once_while_it_is_the_head() -> None:
    with conversation([said("/v1/applied"), said("/v1/head")]) as (hub, heard):
        assert hub.applied() is hub.applied()
    assert heard == [["/v1/applied", "/v1/head"]]


def test_another_head_is_fetched() -> None:
    other = answer(codec.write(messages.HeadAnswer(Head(9, "0" * 64))))
    with conversation([said("/v1/applied"), other, said("/v1/applied")]) as (hub, heard):
        hub.applied()
        assert hub.applied() is not None
    assert heard == [["/v1/applied", "/v1/head", "/v1/applied"]]


def test_a_hub_without_the_head_is_asked_for_the_whole_revision() -> None:
    with conversation([said("/v1/applied"), NOT_FOUND, said("/v1/applied")]) as (hub, heard):
        hub.applied()
        assert hub.applied() is not None
    assert heard == [["/v1/applied", "/v1/head", "/v1/applied"]]


def test_a_committed_revision_is_known_from_what_was_sent() -> None:
    inside = grown_mailbox(2)
    with served(inside) as far:
        hub = far.link()
        candidate = next_candidate(small_fleet({"web": 9}), hub.applied())
        hub.commit(candidate)
        assert hub._applied is not None
        known, kept = hub._applied, hub.applied()
        hub.close()
        fetched = far.link().applied()
        assert kept is known and fetched is not None
        for part in ("head", "header", "table", "trust"):
            assert getattr(known, part) == getattr(fetched, part)
        digest = known.table.entries["service.web"].digest
        assert known.contents[digest] == fetched.contents[digest]


def test_a_hub_that_did_not_apply_what_was_sent_is_asked() -> None:
    head = answer(codec.write(messages.HeadAnswer(Head(3, "0" * 64))))
    candidate = next_candidate(small_fleet({"web": 9}), grown_mailbox(2).applied())
    with conversation([said("/v1/applied"), head, said("/v1/applied")]) as (hub, heard):
        hub.applied()
        hub.commit(candidate)
        hub.applied()
    assert heard == [["/v1/applied", "/v1/revisions", "/v1/applied"]]


# ---- writes


def test_a_write_uses_a_connection_that_has_just_answered() -> None:
    with conversation([said("/v1/damaged"), said("/v1/blobs")]) as (hub, heard):
        hub.damaged()
        assert hub.mend({}) == 1
    assert heard == [["/v1/damaged", "/v1/blobs"]]


def test_a_write_does_not_use_a_connection_that_was_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "FRESH_S", 0.05)
    with conversation([said("/v1/damaged")], [said("/v1/blobs")]) as (hub, heard):
        hub.damaged()
        time.sleep(0.1)
        assert hub.mend({}) == 1
    assert heard == [["/v1/damaged"], ["/v1/blobs"]]


def test_a_write_that_may_have_arrived_is_not_repeated_on_another_connection() -> None:
    with conversation([said("/v1/damaged"), b""], [said("/v1/damaged")]) as (hub, heard):
        hub.damaged()
        with pytest.raises(Unreachable) as raised:
            hub.mend({})
        assert hub.damaged() == []
    assert heard == [["/v1/damaged", "/v1/blobs"], ["/v1/damaged"]] and "history" in raised.value.remedy


# ---- damage


def test_a_hub_says_whether_it_suspects_damage_and_a_command_need_not_ask() -> None:
    with conversation([said("/v1/applied")]) as (hub, _):
        assert hub.suspects_damage(), "nothing was said yet"
        hub.applied()
        assert not hub.suspects_damage()


def test_an_older_hub_does_not_say_so_a_command_asks() -> None:
    older = msgspec.json.decode(codec.write(messages.AppliedAnswer(TRUE)))
    del older["suspect"]
    with conversation([answer(msgspec.json.encode(older))]) as (hub, _):
        assert hub.applied() is not None
        assert hub.suspects_damage()


class OlderAppliedAnswer(msgspec.Struct, frozen=True):
    """As the release before reads it."""

    revision: messages.AppliedRevision | None
    wire: int = 1


def test_an_older_command_reads_the_answer_of_this_hub() -> None:
    content = Revisions(PARTS.hub, PARTS.fleet.views).applied(handed.asked())
    assert codec.read(content, OlderAppliedAnswer).revision == TRUE
    assert codec.read(content, messages.AppliedAnswer).suspect is False


def test_the_answer_changes_with_the_suspicion() -> None:
    store = MemoryStore()
    hub = grown_mailbox(2, store)
    handler = Revisions(hub, PARTS.fleet.views)
    assert codec.read(handler.applied(handed.asked()), messages.AppliedAnswer).suspect is False
    digest = table_of(hub.applied()).entries["service.web"].digest
    content = store.blob(digest)
    assert content is not None
    store.commit(Transaction(expect={}, put={}, drop_blobs=(digest,)))
    hub.blob(digest)
    assert codec.read(handler.applied(handed.asked()), messages.AppliedAnswer).suspect is True
    store.commit(Transaction(expect={}, put={}, blobs={digest: content}))
    sweep = Status(hub, PARTS.fleet.views, PARTS.fleet.watched).damaged(handed.asked())
    assert codec.read(sweep, messages.DamagedAnswer).digests == ()
    assert codec.read(handler.applied(handed.asked()), messages.AppliedAnswer).suspect is False
    commit(hub, small_fleet({"web": 9}))
    assert codec.read(handler.applied(handed.asked()), messages.AppliedAnswer).suspect is False
