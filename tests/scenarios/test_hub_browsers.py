"""A web page in somebody's browser reaches the hub's port, and gets nothing from it, whatever he is logged into."""

from collections.abc import Iterator

import pytest

from tests.fleets.build import grown_mailbox
from tests.fleets.serving import Served, get, post, raw, served, stamped

MEND = b'{"blobs":{}}'


@pytest.fixture(scope="module")
def hub() -> Iterator[Served]:
    with served(grown_mailbox(2)) as found:
        yield found


def request(first: str, *fields: str, body: bytes = b"") -> bytes:
    return "\r\n".join([first, *fields, "", ""]).encode() + body


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (request("GET /healthz HTTP/1.1", "Host: localhost", "Origin: https://evil.example"), 403, "cross_site"),
        (request("HEAD /v1/head HTTP/1.1", "Connection: close", "Host: localhost", "Origin: null"), 403, ""),
        (request("GET /v1/head HTTP/1.1", "Host: localhost", "Origin: https://evil.example"), 403, "cross_site"),
        (request("GET /v1/head HTTP/1.1", "Host: localhost", "Sec-Fetch-Site: cross-site"), 403, "cross_site"),
        (request("OPTIONS /v1/blobs HTTP/1.1", "Host: localhost", "Origin: null"), 403, "cross_site"),
        (
            request("POST /v1/blobs HTTP/1.1", "Host: localhost", f"Content-Length: {len(MEND)}", body=MEND),
            400,
            "content_type",
        ),
    ],
)
def test_what_a_browser_would_send_for_a_page_is_refused(hub: Served, sent: bytes, status: int, code: str) -> None:
    """Also with a good signature: a page must not use what the person has."""
    before = len(hub.events())
    answer = raw(hub, stamped(hub, sent))
    assert answer.status == status
    assert raw(hub, sent).status == status
    if status == 403:
        assert [event.detail for event in hub.denials(before + 2)[before:]] == ["cross_site"] * 2
    assert "access-control-allow-origin" not in answer.headers
    if code:
        assert answer.json()["code"] == code and answer.json()["remedy"]


def test_a_program_is_served_whatever_it_calls_the_hub(hub: Served) -> None:
    """Whom a request is meant for is in its signature, not in Host."""
    assert get(hub, "/v1/head").status == 200
    assert post(hub, "/v1/blobs", MEND).status == 200
    for host in ("127.0.0.1", f"[::1]:{hub.port}", "hub.example"):
        assert raw(hub, stamped(hub, request("GET /v1/head HTTP/1.1", f"Host: {host}"))).status == 200
