"""A well-formed request with a malformed revision is refused like any other, signed or not (S03, I-07)."""

import random
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.revision import Candidate
from holdfast.wire import codec, messages
from tests.fleets.build import grown_mailbox, next_candidate, small_fleet
from tests.fleets.serving import get, post, served


def broken_revisions(good: Candidate) -> Iterator[Candidate]:
    """Every part bent, with digests corrected so that the check behind the digest is the one that is reached.

    None is signed, for what a stranger sends must be bearable too.
    """
    dice = random.Random(7)
    junk: tuple[object, ...] = (None, 1, -1, 1.5, "", "x", [], {}, True, "a" * 64, "0" * 64, {"digest": "0" * 64})
    unreadable = (b"\xff", b'{"a":"\xff"}', b"", b"[" * 5_000, b'{"a":' * 5_000, b"nul")
    for _ in range(150):
        at = dice.randrange(len(good.header))
        yield replace(good, header=good.header[:at] + dice.randbytes(1) + good.header[at + 1 :], signatures=())
    documents = [digest for digest, content in good.blobs.items() if content != good.table]
    for digest in documents:
        plain = msgspec.json.decode(good.blobs[digest])
        bent = [canonical.encode({**plain, key: value}) for key in plain for value in junk]
        for content in (*unreadable, *bent, *(canonical.encode(value) for value in junk)):
            yield referring(good, digest, content)
    table = msgspec.json.decode(good.table)
    for address in table["entries"]:
        less = {key: entry for key, entry in table["entries"].items() if key != address}
        yield with_table(good, {**table, "entries": less})
        for value in junk:
            yield with_table(good, {**table, "entries": {**table["entries"], address: value}})
        yield with_table(good, {**table, "entries": {**table["entries"], "service.No Name": table["entries"][address]}})


def with_table(good: Candidate, table: object) -> Candidate:
    content = canonical.encode(table)
    header = good.header.replace(canonical.digest(good.table).encode(), canonical.digest(content).encode())
    blobs = {digest: text for digest, text in good.blobs.items() if text != good.table}
    return Candidate(header, content, blobs)


def referring(good: Candidate, digest: str, content: bytes) -> Candidate:
    """The same revision with other content under one address."""
    other = canonical.digest(content)
    table = good.table.replace(digest.encode(), other.encode())
    header = good.header.replace(digest.encode(), other.encode())
    header = header.replace(canonical.digest(good.table).encode(), canonical.digest(table).encode())
    blobs = {other if key == digest else key: content if key == digest else text for key, text in good.blobs.items()}
    return Candidate(header, table, {key: text for key, text in blobs.items() if text != good.table})


def test_a_malformed_revision_is_refused_and_the_head_stays() -> None:
    hub = grown_mailbox(1)
    good = next_candidate(small_fleet({"web": 2, "api": 1}, nodes=("w1", "w2")), hub.applied())
    answers: dict[int, int] = {}
    with served(hub) as far:
        for broken in broken_revisions(good):
            answer = post(far, "/v1/revisions", codec.write(messages.commit_request(broken)))
            answers[answer.status] = answers.get(answer.status, 0) + 1
            assert answer.status in (400, 403, 409), (answer, broken)
        assert get(far, "/v1/head").json()["head"]["number"] == 1
        assert post(far, "/v1/revisions", codec.write(messages.commit_request(good))).status == 200
    assert sum(answers.values()) > 400
