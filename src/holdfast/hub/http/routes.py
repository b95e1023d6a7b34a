"""Every route of the hub in one table, noun by noun, and how a request is matched to one. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.errors import Invalid
from holdfast.hub.http.handlers import (
    audit,
    backups,
    commits,
    description,
    hub_file,
    moves,
    nodes,
    orders,
    revisions,
    revocations,
    status,
    streams,
    tokens,
)
from holdfast.hub.http.route import Parameter, Route, Word

ROUTES: tuple[Route, ...] = (
    *description.ROUTES,
    *revisions.ROUTES,
    *status.ROUTES,
    *commits.ROUTES,
    *tokens.ROUTES,
    *nodes.ROUTES,
    *orders.ROUTES,
    *streams.ROUTES,
    *revocations.ROUTES,
    *audit.ROUTES,
    *backups.ROUTES,
    *moves.ROUTES,
    *hub_file.ROUTES,
)

_FORM: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "number": (r"[1-9][0-9]{0,14}", int),
    "digest": (r"[0-9a-f]{64}", str),
    "token": (r"[0-9a-f]{16}", str),
    "order": (r"[0-9a-f]{32}", str),
}
_PATTERNS = {
    path: re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", re.escape(path).replace(r"\{", "{").replace(r"\}", "}")))
    for path in {route.path for route in ROUTES}
}


class MethodNotAllowed(Invalid):
    code = "method_not_allowed"

    def __init__(self, allow: str) -> None:
        super().__init__("this path does not take that method", remedy=f"use one of: {allow}")
        self.allow = allow


def match(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """The route and its path parameters as written. HEAD is GET without the body of the response."""
    here = [(route, found) for route in ROUTES if (found := _PATTERNS[route.path].fullmatch(path))]
    if not here:
        raise Invalid("there is nothing at this path", remedy="GET /openapi.json lists every path", code="not_found")
    for route, found in here:
        if route.method == ("GET" if method == "HEAD" else method):
            return route, found.groupdict()
    methods = {route.method for route, _ in here}
    raise MethodNotAllowed(", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set()))))


def path_values(written: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for name, text in written.items():
        form, kind = _FORM[name]
        if not re.fullmatch(form, text):
            raise _malformed(name, form)
        values[name] = kind(text)
    return values


def query_values(route: Route, written: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Unknown parameters are ignored: a newer client may send them."""
    texts: dict[str, list[str]] = {}
    for name, text in written:
        texts.setdefault(name, []).append(text)
    return {
        p.name: _word(p, texts.get(p.name, [])) if isinstance(p, Word) else _number(p, texts.get(p.name, []))
        for p in route.query
    }


def _word(word: Word, texts: list[str]) -> str:
    if not texts:
        return ""
    if len(texts) != 1 or not re.fullmatch(word.form, texts[0], re.ASCII):
        raise _malformed(word.name, word.form)
    return texts[0]


def _number(parameter: Parameter, texts: list[str]) -> int:
    if not texts and parameter.default is not None:
        return parameter.default
    if len(texts) != 1 or not re.fullmatch(r"[0-9]{1,16}", texts[0], re.ASCII):
        raise _malformed(parameter.name, "a whole number, once")
    number = int(texts[0])
    if not parameter.least <= number <= parameter.most:
        raise _malformed(parameter.name, f"{parameter.least} to {parameter.most}")
    return number


def _malformed(name: str, form: str) -> Invalid:
    return Invalid(f"{name} is not what it must be: {form}", remedy="GET /openapi.json describes every parameter")
