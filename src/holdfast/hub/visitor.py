"""Who may speak to the hub at all: programs on this machine, never a web page that a browser here has open. Pure.

The hub listens on loopback only, but so does every browser's reach: a page may point a name of its own at 127.0.0.1
(then Host tells), or simply send a form there (then Origin, Sec-Fetch-Site or the content type tells).
"""

import re
from collections.abc import Callable

from msgspec import Struct

from holdfast.errors import HoldfastError, Invalid, NotPermitted

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HERE = re.compile(rf"(?:127(?:\.{_OCTET}){{3}}|\[::1\]|localhost)(?::[0-9]{{1,5}})?", re.ASCII | re.IGNORECASE)
_JSON = re.compile(r"application/json[ \t]*(?:;.*)?", re.ASCII | re.IGNORECASE)
_OWN_SITES = ("none", "same-origin")  # typed by a person; or from a page of this very hub


class Visit(Struct, frozen=True):
    """What a request says of where it comes from; every header as often as it was sent."""

    method: str
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()  # Sec-Fetch-Site
    content_types: tuple[str, ...] = ()


def is_for_this_machine(visit: Visit) -> HoldfastError | None:
    if len(visit.hosts) == 1 and _HERE.fullmatch(visit.hosts[0]):
        return None
    return NotPermitted(
        "this request was meant for another host, and this hub answers for this machine only",
        remedy="call it by a loopback address, for instance http://127.0.0.1:9555; from outside through ssh -L; a "
        "proxy on this machine must send Host: localhost",
        code="foreign_host",
    )


def is_no_web_page(visit: Visit) -> HoldfastError | None:
    if not visit.origins and all(site in _OWN_SITES for site in visit.sites):
        return None
    return NotPermitted(
        "this request was sent by a web page, and none may speak to this hub",
        remedy="use the command line (holdfast --help) or a program that is no browser",
        code="cross_site",
    )


def brings_json(visit: Visit) -> HoldfastError | None:
    """A form of a web page cannot send this type without asking first."""
    if visit.method != "POST" or (len(visit.content_types) == 1 and _JSON.fullmatch(visit.content_types[0])):
        return None
    return Invalid(
        "the body of this request is not said to be JSON",
        remedy="send Content-Type: application/json",
        code="content_type",
    )


RULES: tuple[Callable[[Visit], HoldfastError | None], ...] = (is_for_this_machine, is_no_web_page, brings_json)


def refusal(visit: Visit) -> HoldfastError | None:
    """The first rule that this visit breaks, in words."""
    return next((trouble for rule in RULES if (trouble := rule(visit)) is not None), None)
