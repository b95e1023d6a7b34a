"""Messages survive the trip, also between releases that are one apart; broken ones are refused in words."""

import msgspec
import pytest

from holdfast.errors import Invalid
from holdfast.hub.http import limits
from holdfast.model.hub_status import HubStatus, StatusFinding
from holdfast.model.revision import NO_HEAD, Head
from holdfast.wire import codec, messages
from holdfast.wire.faults import Fault
from tests.fleets.build import commit, mailbox, next_candidate, small_fleet

HEAD = Head(7, "a" * 64)
EVERY = [
    messages.HeadAnswer(HEAD),
    messages.AppliedAnswer(None),
    messages.AppliedAnswer(messages.AppliedRevision(HEAD, b"\x00\xff", b"{}", b"")),
    messages.HistoryPage(()),
    messages.LinksPage(()),
    messages.ObservationsAnswer({}),
    messages.DamagedAnswer(("b" * 64,)),
    messages.HealthAnswer(),
    messages.CommitRequest(b"header", b"table", {"c" * 64: b"\x80"}, ("signature",)),
    messages.MendRequest({"d" * 64: b""}),
    messages.MendAnswer(3),
    Fault("code", "message", "remedy"),
]


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message: msgspec.Struct) -> None:
    assert codec.read(codec.write(message), type(message)) == message


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_fields_of_a_later_release_are_ignored(message: msgspec.Struct) -> None:
    later = {**msgspec.json.decode(codec.write(message)), "wire": 2, "since_next_release": [{"deep": 1}]}
    read = codec.read(msgspec.json.encode(later), type(message))
    assert msgspec.structs.replace(read, wire=1) == message if hasattr(read, "wire") else read == message


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_a_release_that_did_not_know_the_generation_is_understood(message: msgspec.Struct) -> None:
    earlier = msgspec.json.decode(codec.write(message))
    earlier.pop("wire", None)
    assert codec.read(msgspec.json.encode(earlier), type(message)) == message


def test_a_signed_revision_travels_whole_and_its_table_only_once() -> None:
    hub = mailbox()
    sent = msgspec.structs.replace(next_candidate(small_fleet(("web", "api")), None), message="why")
    request = messages.commit_request(sent)
    assert sent.table in sent.blobs.values()
    assert sent.table not in request.blobs.values()
    arrived = messages.candidate_of(codec.read(codec.write(request), messages.CommitRequest))
    assert hub.commit(arrived) == commit(mailbox(), small_fleet(("web", "api")))
    assert hub.records(0, 1)[0].message == "why"


def test_the_status_is_flat_and_survives() -> None:
    finding = StatusFinding("revision_behind", "warning", "text", "restart", "", 1.5)
    status = HubStatus("1.2", "ledger", "f", HEAD, NO_HEAD, {"node": 1}, ("service.a",), (finding,))
    written = codec.write(messages.status_answer(status))
    assert msgspec.json.decode(written)["source"] == "ledger"
    assert messages.status_of(codec.read(written, messages.StatusAnswer)) == status


def test_who_asks_and_who_answers_agree_on_the_length_of_a_page() -> None:
    assert (messages.PAGE_RECORDS, messages.PAGE_LINKS) == (limits.HISTORY_MAX, limits.LINKS_MAX)


MEND = messages.MendRequest
BROKEN = {
    "nothing": b"",
    "no JSON": b"hello",
    "half of it": b'{"blobs":{',
    "another type": b"[]",
    "null": b"null",
    "a wrong field": b'{"blobs":[]}',
    "a missing field": b"{}",
    "no base64": b'{"blobs":{"%s":"!"}}' % (b"a" * 64),
    "base64 without padding": b'{"blobs":{"%s":"YQ"}}' % (b"a" * 64),
    "a key that is no digest": b'{"blobs":{"../x":""}}',
    "no UTF-8": b'{"blobs":{"\xff":""}}',
    "half a surrogate": b'{"blobs":{"\\ud800":""}}',
    "too deep": b'{"x":' * 100_000,
    "too deep in a list": b'{"x":' + b"[" * 100_000,
    "not a number": b'{"blobs":{},"x":NaN}',
    "a generation that never was": b'{"blobs":{},"wire":0}',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_what_cannot_be_read_is_invalid_and_says_why(content: bytes) -> None:
    with pytest.raises(Invalid) as raised:
        codec.read(content, MEND)
    assert raised.value.message.startswith("this message cannot be read: ")
    assert raised.value.remedy
