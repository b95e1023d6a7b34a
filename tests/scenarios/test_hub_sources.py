"""One source and one door: the old file or the ledger, never both; on any address, TLS 1.3 alone (O-02, O-10, S01)."""

import json
import socket
import ssl

import pytest
from msgspec.structs import replace

from holdfast.declared import later
from holdfast.errors import Conflict, Invalid
from holdfast.hub.ledger.legacy import LegacySource, one_source
from holdfast.wire import codec, messages
from holdfast.wiring import hub_http
from tests.fleets.build import mailbox, next_candidate, small_fleet
from tests.fleets.serving import NOBODY, Served, get, parts_of, post, raw, running, served


def test_a_configuration_file_is_served_read_only_and_says_so() -> None:
    hub = LegacySource(small_fleet(("web", "api"), nodes=("w1",)))
    with served(hub) as far:
        status = get(far, "/v1/status").json()
        assert status["source"] == "config"
        assert status["resources"] == {"fleet": 1, "trust": 1, "node": 1, "service": 2}
        assert get(far, "/v1/applied").json()["revision"] is None
        assert get(far, "/v1/history").json()["revisions"] == []
        assert get(far, "/v1/revisions/1").status == get(far, "/v1/links?first=1&last=1").status == 404
        refused = post(far, "/v1/revisions", codec.write(messages.commit_request(next_candidate(small_fleet(), None))))
        assert (refused.status, refused.json()["code"]) == (409, "legacy_source")
        assert "--state-dir" in refused.json()["remedy"]
        with pytest.raises(Conflict, match="read-only"):
            far.link().mend({})


def test_a_served_directory_names_its_keys_without_an_effect() -> None:
    """One finding per row of the table, whatever the number of places; `hub run` prints findings when it starts."""
    fleet = small_fleet(("web", "api"), nodes=("w1", "w2"))
    assert [finding.code for finding in LegacySource(fleet).status().findings] == ["legacy_source"]
    fleet = replace(
        fleet,
        nodes={name: replace(node, direct="on", labels={"rack": "a"}) for name, node in fleet.nodes.items()},
        services={name: replace(service, custody="hub") for name, service in fleet.services.items()},
    )
    _, *found = LegacySource(fleet).status().findings
    rows = [later.TABLE[row] for row in (("Node", "direct", "on"), ("Node", "labels", ""), ("Service", "custody", ""))]
    assert {(finding.code, finding.level) for finding in found} == {("without_effect", "warning")}
    assert {finding.remedy for finding in found} == {row.remedy for row in rows} and len(found) == 3
    (custody,) = [finding.message for finding in found if finding.message.startswith(rows[2].reason)]
    assert all(f"services/{name}.toml: custody" in custody for name in ("web", "api"))


def test_two_sources_are_refused_before_either_is_opened() -> None:
    with pytest.raises(Invalid, match="two sources") as raised:
        one_source("/does/not/exist.toml", "/does/not/exist")
    assert (raised.value.code, raised.value.exit_code) == ("two_sources", 2)
    one_source("config.toml", None)
    one_source(None, "state")


# ---- where it listens


@pytest.mark.parametrize(("host", "dialled"), [("0.0.0.0", "127.0.0.1"), ("127.8.8.8", "127.8.8.8"), ("::", "::1")])
def test_it_listens_wherever_it_is_told_to_and_everybody_needs_an_identity(host: str, dialled: str) -> None:
    """There is no unauthenticated mode any more, hence no address that would be unsafe for it (C-33)."""
    hub = Served(*parts_of(mailbox(), names=(dialled,)), host=dialled)
    with running(hub, listen=host):
        assert get(hub, "/healthz", NOBODY).status == 200
        assert get(hub, "/v1/head", NOBODY).status == 401
        assert get(hub, "/v1/head").status == 200


def shaken(hub: Served, oldest: ssl.TLSVersion, newest: ssl.TLSVersion) -> str | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = oldest, newest
    with socket.create_connection((hub.host, hub.port), 5) as line:
        try:
            with context.wrap_socket(line) as inside:
                return inside.version()
        except (ssl.SSLError, ConnectionError):
            return None


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_it_speaks_tls_1_3_and_nothing_else() -> None:
    """S01: plaintext and every older version end before a request is heard."""
    with served(mailbox()) as hub:
        assert shaken(hub, ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2):
            assert shaken(hub, version, version) is None
        with socket.create_connection((hub.host, hub.port), 5) as line:
            line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert not line.recv(100).startswith(b"HTTP")
        assert get(hub, "/healthz").status == 200


def test_a_taken_port_is_a_conflict_with_a_remedy() -> None:
    with served(mailbox()) as hub, pytest.raises(Conflict) as raised:
        hub_http.daemon(parts_of(mailbox())[0], "127.0.0.1", hub.port).run(lambda _: None)
    assert raised.value.code == "address_in_use"


def test_no_answer_reveals_a_version_of_what_runs_here() -> None:
    with served(mailbox()) as far:
        for answer in (get(far, "/healthz"), get(far, "/nope"), raw(far, b"nonsense\r\n\r\n")):
            assert answer.headers["server"] == "holdfast"
            assert "aiohttp" not in json.dumps(answer.headers).lower()
            assert "python" not in json.dumps(answer.headers).lower()
