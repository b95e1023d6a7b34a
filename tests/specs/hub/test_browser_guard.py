"""Programs may speak to the hub; web pages that somebody's browser has open may not."""

import pytest
from msgspec.structs import replace

from holdfast.hub.http import browser_guard
from holdfast.hub.http.browser_guard import Visit, refusal
from holdfast.ports.http_server import Request

GET = Visit("GET")
POST = Visit("POST", content_types=("application/json",))


def code(visit: Visit) -> str | None:
    found = refusal(visit)
    assert found is None or found.remedy
    return found.code if found else None


@pytest.mark.parametrize(
    ("origins", "sites", "expected"),
    [
        ((), (), None),
        ((), ("none",), None),
        ((), ("same-origin",), None),
        ((), ("same-site",), "cross_site"),  # another port of this machine is the same site
        ((), ("cross-site",), "cross_site"),
        ((), ("none", "cross-site"), "cross_site"),
        ((), ("",), "cross_site"),
        (("https://evil.example",), (), "cross_site"),
        (("null",), (), "cross_site"),
        (("",), (), "cross_site"),
        (("http://127.0.0.1:9555",), ("same-origin",), "cross_site"),  # the hub has no pages
    ],
)
def test_a_web_page_is_refused(origins: tuple[str, ...], sites: tuple[str, ...], expected: str | None) -> None:
    for visit in (GET, POST):
        assert code(replace(visit, origins=origins, sites=sites)) == expected


@pytest.mark.parametrize(
    ("content_types", "expected"),
    [
        (("application/json",), None),
        (("Application/JSON; charset=utf-8",), None),
        (("application/json ;charset=utf-8",), None),
        ((), "content_type"),
        (("",), "content_type"),
        (("text/plain",), "content_type"),
        (("text/plain; application/json",), "content_type"),
        (("application/x-www-form-urlencoded",), "content_type"),
        (("application/jsonp",), "content_type"),
        (("application/json", "text/plain"), "content_type"),
    ],
)
def test_what_is_sent_is_called_json(content_types: tuple[str, ...], expected: str | None) -> None:
    assert code(replace(POST, content_types=content_types)) == expected
    assert code(replace(GET, content_types=content_types)) is None


def test_every_header_counts_as_often_as_it_was_sent_and_in_any_case() -> None:
    fields = (("ORIGIN", "a"), ("Host", "x"), ("origin", "b"), ("content-Type", "application/json"))
    found = browser_guard.visit(Request("POST", "/v1/tokens", dict(fields), fields=fields))
    assert found == Visit("POST", ("a", "b"), (), ("application/json",))
