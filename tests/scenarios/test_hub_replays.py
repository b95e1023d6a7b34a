"""Whatever command line and agent send, recorded and sent again, here or elsewhere, is refused and audited (W8)."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.fleet_link.http import HttpFleetLink
from holdfast.adapters.http_server.connection import Connection
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model.checkin import CheckIn
from holdfast.model.revision import Head
from tests.fleets.build import commit, mailbox, next_candidate, small_fleet
from tests.fleets.serving import Served, get, key_of, raw, served

# What the real clients are made to send; a test below compares it with what was recorded.
CLI = (
    "GET /v1/applied",
    "GET /v1/history",
    "GET /v1/links",
    "GET /v1/blobs",
    "GET /v1/observations",
    "GET /v1/status",
    "GET /v1/damaged",
    "GET /v1/nodes",
    "GET /v1/orders",
    "GET /v1/audit",
    "GET /v1/tokens",
    "POST /v1/tokens",
    "POST /v1/blobs",
    "POST /v1/revisions",
)
AGENT = ("POST /v1/join", "POST /v1/check-in", "GET /v1/links", "GET /v1/node/blobs")


@contextmanager
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, bytearray]]:
    """What arrives on each connection, as an attacker would have it who broke TLS, or sits in the hub."""
    heard: dict[int, bytearray] = {}
    whole: Any = Connection.data_received

    def listen(self: Connection, data: bytes) -> None:
        heard.setdefault(id(self), bytearray()).extend(data)
        whole(self, data)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "data_received", listen)
        yield heard


def requests(heard: dict[int, bytearray]) -> list[bytes]:
    found = []
    for stream in heard.values():
        rest = bytes(stream)
        while rest:
            head, _, after = rest.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            size = int(length[1]) if length else 0
            found.append(head + b"\r\n\r\n" + after[:size])
            rest = after[size:]
    return found


def label(sent: bytes) -> str:
    method, target = sent.decode("latin-1").split(" ", 2)[:2]
    return f"{method} {re.sub(r'/[0-9a-f]{64}$', '', target.partition('?')[0])}"


def use_everything_of_the_command_line(hub: Served, mail: Revisions) -> None:
    link = hub.link()
    applied = link.applied()
    assert applied is not None
    link.records(0, 5)
    link.links(1, 1)
    link.blob(applied.table.entries["service.web"].digest)
    link.observations()
    link.status()
    link.damaged()
    link.nodes()
    link.orders()
    link.audit_lines()
    link.create_token("ci", 60)
    link.tokens()
    link.mend({})
    link.commit(next_candidate(small_fleet({"web": 2}), applied))
    link.close()


async def be_an_agent(hub: Served, mail: Revisions, head: Head) -> None:
    applied = mail.applied()
    assert applied is not None
    line = HttpFleetLink(hub.url, hub.hub_key, key_of("w1"), lambda: hub.fleet_id, SystemClock(), SystemRandom())
    assert (await line.join(hub.joining("w1"))).accepted
    await line.check_in(CheckIn("w1", seen=head, wait_s=0.2))
    await line.links(1, 1)
    await line.blob(applied.header.manifests["w1"])
    await line.close()


def test_nothing_recorded_can_be_sent_again_to_this_hub_or_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    mail, other = mailbox(), mailbox()
    head = commit(mail, small_fleet())
    commit(other, small_fleet())
    with served(mail) as hub, served(other) as twin:
        assert hub.fleet_id == twin.fleet_id and hub.hub_key != twin.hub_key
        with recorder(monkeypatch) as heard:
            asyncio.run(be_an_agent(hub, mail, head))
            use_everything_of_the_command_line(hub, mail)
        recorded = requests(heard)
        assert {label(sent) for sent in recorded} == {*CLI, *AGENT}
        before, twin_before = len(hub.denials(0)), len(twin.denials(0))
        state = hub.store.revision(), twin.store.revision()
        for place, code in ((hub, "replayed"), (twin, "other_recipient")):
            for sent in recorded:
                answer = raw(place, sent)
                assert (answer.status, answer.json()["code"]) == (401, code), label(sent)
        assert (hub.store.revision(), twin.store.revision()) == state
        assert get(hub, "/v1/head").json()["head"]["number"] == 2
        assert get(twin, "/v1/head").json()["head"]["number"] == 1
        for place, at, code in ((hub, before, "replayed"), (twin, twin_before, "other_recipient")):
            found = place.denials(at + len(recorded))[at:]
            assert [event.detail for event in found] == [code] * len(recorded)
            assert {event.source for event in found} == {"127.0.0.1"}
        assert {event.principal for event in hub.denials(0)[before:]} == {"operator:alice", "node:w1"}
