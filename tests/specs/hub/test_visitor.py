"""Programs on this machine may speak to the hub; web pages that a browser here has open may not (C-33)."""

import pytest
from msgspec.structs import replace

from holdfast.hub.visitor import Visit, refusal

HERE = ("127.0.0.1:9555",)
GET = Visit("GET", HERE)
POST = Visit("POST", HERE, content_types=("application/json",))


def code(visit: Visit) -> str | None:
    found = refusal(visit)
    assert found is None or found.remedy
    return found.code if found else None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9555",
        "127.8.255.8:1",
        "[::1]",
        "[::1]:9555",
        "localhost",
        "localhost:80",
        "LocalHost:80",
    ],
)
def test_whoever_calls_this_machine_is_let_in(host: str) -> None:
    assert code(replace(GET, hosts=(host,))) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        "hub",
        "evil.example:9555",
        "127.0.0.1.evil.example",
        "localhost.evil.example:9555",
        "evil.localhost",
        "127.0.0.256",
        "127.0.0.01",
        "127.1",
        "128.0.0.1",
        "10.0.0.1:9555",
        "0.0.0.0:9555",
        "[::]",
        "[::ffff:127.0.0.1]",
        "::1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "evil@127.0.0.1",
        "127.0.0.1\n",
        "127.0.0.١",
    ],
)
def test_a_name_that_only_leads_here_is_refused(host: str) -> None:
    """DNS rebinding: the page's own name, pointed at 127.0.0.1."""
    assert code(replace(GET, hosts=(host,))) == "foreign_host"


@pytest.mark.parametrize("hosts", [(), HERE * 2, (*HERE, "evil.example")])
def test_one_host_is_named_and_not_none_or_two(hosts: tuple[str, ...]) -> None:
    assert code(replace(GET, hosts=hosts)) == "foreign_host"


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
