"""A web page in a browser on this machine reaches the hub's port, and gets nothing from it (C-33)."""

from collections.abc import Iterator

import pytest

from tests.fleets.build import grown_mailbox
from tests.fleets.serving import get, post, raw, served

MEND = b'{"blobs":{}}'


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(grown_mailbox(2)) as number:
        yield number


def request(first: str, *fields: str, body: bytes = b"") -> bytes:
    return "\r\n".join([first, *fields, "", ""]).encode() + body


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (request("GET /v1/head HTTP/1.1", "Host: evil.example"), 403, "foreign_host"),
        (request("GET /nowhere HTTP/1.1", "Host: evil.example"), 403, "foreign_host"),
        (request("HEAD /v1/head HTTP/1.1", "Host: evil.example"), 403, ""),
        (request("GET /v1/head HTTP/1.0"), 403, "foreign_host"),
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
def test_what_a_browser_would_send_for_a_page_is_refused(port: int, sent: bytes, status: int, code: str) -> None:
    answer = raw(port, sent)
    assert answer.status == status
    assert "access-control-allow-origin" not in answer.headers
    if code:
        assert answer.json()["code"] == code and answer.json()["remedy"]


def test_programs_on_this_machine_are_served(port: int) -> None:
    assert get(port, "/v1/head").status == 200
    assert post(port, "/v1/blobs", MEND).status == 200
    for host in ("127.0.0.1", f"127.0.0.1:{port}", f"[::1]:{port}"):
        assert raw(port, request("GET /v1/head HTTP/1.1", f"Host: {host}")).status == 200
