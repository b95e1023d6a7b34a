"""One source and one address: the old file or the ledger, never both, nowhere others reach (C-33, O-02, O-10)."""

import json

import pytest

from holdfast.adapters.hub_link.http import HttpHub
from holdfast.errors import Conflict, Invalid
from holdfast.hub.daemon import Daemon, loopback
from holdfast.hub.legacy import LegacySource, one_source
from holdfast.wire import codec, messages
from tests.fleets.build import mailbox, next_candidate, small_fleet
from tests.fleets.serving import get, post, raw, served


def test_a_configuration_file_is_served_read_only_and_says_so() -> None:
    hub = LegacySource(small_fleet(("web", "api"), nodes=("w1",)))
    with served(hub) as port:
        status = get(port, "/v1/status").json()
        assert status["source"] == "config"
        assert status["resources"] == {"fleet": 1, "trust": 1, "node": 1, "service": 2}
        assert get(port, "/v1/applied").json()["revision"] is None
        assert get(port, "/v1/history").json()["revisions"] == []
        assert get(port, "/v1/revisions/1").status == get(port, "/v1/links?first=1&last=1").status == 404
        refused = post(port, "/v1/revisions", codec.write(messages.commit_request(next_candidate(small_fleet(), None))))
        assert (refused.status, refused.json()["code"]) == (409, "legacy_source")
        assert "--state-dir" in refused.json()["remedy"]
        with pytest.raises(Conflict, match="read-only"):
            HttpHub(f"http://127.0.0.1:{port}").mend({})


def test_two_sources_are_refused_before_either_is_opened() -> None:
    with pytest.raises(Invalid, match="two sources") as raised:
        one_source("/does/not/exist.toml", "/does/not/exist")
    assert (raised.value.code, raised.value.exit_code) == ("two_sources", 2)
    one_source("config.toml", None)
    one_source(None, "state")


# ---- where it listens


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "192.0.2.1", "hub.example", "127.0.0.1.example", "::ffff:127.0.0.1"]
)
def test_an_address_that_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(Invalid) as raised:
        Daemon(mailbox(), host, 0)
    assert raised.value.code == "unauthenticated_listen"
    assert "127.0.0.1" in raised.value.remedy


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_a_loopback_address_is_accepted(host: str) -> None:
    assert loopback(host) in ("127.0.0.1", "127.8.8.8", "::1")


def test_a_taken_port_is_a_conflict_with_a_remedy() -> None:
    with served(mailbox()) as port, pytest.raises(Conflict) as raised:
        Daemon(mailbox(), "127.0.0.1", port).run(lambda _: None)
    assert raised.value.code == "address_in_use"


def test_no_answer_reveals_a_version_of_what_runs_here() -> None:
    with served(mailbox()) as port:
        for answer in (get(port, "/healthz"), get(port, "/nope"), raw(port, b"nonsense\r\n\r\n")):
            assert answer.headers["server"] == "holdfast"
            assert "aiohttp" not in json.dumps(answer.headers).lower()
            assert "python" not in json.dumps(answer.headers).lower()
