"""Refuse requests that a web page made a browser send. Pure.

The signature proves the sender and the hub it was meant for (hub/http/authentication.py). The Host header proves
nothing and is not read. A browser sends what any page asks for, so a page is refused before anything else: Origin,
Sec-Fetch-Site or the content type show it. This hub serves no pages yet.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from holdfast.errors import HoldfastError, Invalid, NotPermitted
from holdfast.ports.http_server import Request

_JSON = re.compile(r"application/json[ \t]*(?:;.*)?", re.ASCII | re.IGNORECASE)
_OWN_SITES = ("none", "same-origin")  # typed by a person; or from a page of this very hub


class Visit(Struct, frozen=True):
    """Headers that show where a request comes from, each as often as it was sent."""

    method: str
    origins: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()  # Sec-Fetch-Site
    content_types: tuple[str, ...] = ()


def visit(request: Request) -> Visit:
    sent: dict[str, list[str]] = {"origin": [], "sec-fetch-site": [], "content-type": []}
    for name, text in request.fields:
        if (shown := sent.get(name.lower())) is not None:
            shown.append(text)
    return Visit(request.method, *map(tuple, sent.values()))


def is_no_web_page(visit: Visit) -> HoldfastError | None:
    if not visit.origins and all(site in _OWN_SITES for site in visit.sites):
        return None
    return NotPermitted(
        "this request was sent by a web page; web pages may not use this hub",
        remedy="use the command line (`holdfast --help`) or a program that is no browser",
        code="cross_site",
    )


def brings_json(visit: Visit) -> HoldfastError | None:
    """A form of a web page cannot send this type without asking first."""
    if visit.method != "POST" or (len(visit.content_types) == 1 and _JSON.fullmatch(visit.content_types[0])):
        return None
    return Invalid(
        "the request does not declare its body as JSON",
        remedy="send Content-Type: application/json",
        code="content_type",
    )


RULES: tuple[Callable[[Visit], HoldfastError | None], ...] = (is_no_web_page, brings_json)


def refusal(visit: Visit) -> HoldfastError | None:
    """The refusal of the first rule that this visit breaks."""
    return next((trouble for rule in RULES if (trouble := rule(visit)) is not None), None)
