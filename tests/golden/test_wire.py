"""The HTTP interface is what it was: every route with its permission, cost, parameters, request and answer."""

from typing import Any

import msgspec

from holdfast.hub.http import openapi
from holdfast.hub.http.route import Word
from holdfast.hub.http.routes import ROUTES
from holdfast.wire import http_signature, messages, session_header
from tests.golden import stored

SCHEMAS = "#/components/schemas/"


def inlined(value: Any, schemas: dict[str, Any], within: tuple[str, ...] = ()) -> Any:
    """A schema without the names of classes: what is referred to stands in its place; human texts are left out."""
    if isinstance(value, list):
        return [inlined(inner, schemas, within) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        name = value["$ref"].removeprefix(SCHEMAS)
        if name in within:
            return {"again": len(within) - within.index(name)}
        return inlined(schemas[name], schemas, (*within, name))
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if key in ("properties", "patternProperties"):
            found[key] = {name: inlined(one, schemas, within) for name, one in inner.items()}
        elif key not in ("title", "description", "summary", "operationId"):
            found[key] = inlined(inner, schemas, within)
    return found


def document() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(openapi.document())
    return found


def test_the_description_of_the_interface() -> None:
    described = document()
    schemas = described["components"]["schemas"]
    paths = {
        f"{method.upper()} {path}": inlined(operation, schemas)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    fault = paths["GET /healthz"]["responses"]["default"]
    for operation in paths.values():  # every failure has one form, which stands in the file once
        answers = operation["responses"]
        operation["responses"] = {key: "fault" if one == fault else one for key, one in answers.items()}
    schemes = inlined(described["components"]["securitySchemes"], schemas)
    whole = {
        "openapi": described["openapi"],
        "version": described["info"]["version"],
        "schemes": schemes,
        "fault": fault,
    }
    stored.check("wire/openapi.json", stored.pretty(whole | {"paths": paths}))


def test_the_routes() -> None:
    """Beside the description: what a route costs, which permission it asks for, how long its body may be."""
    rows = {
        f"{route.method} {route.path}": {
            "permission": route.operation,
            "cost": route.cost,
            "body bytes max": route.body_bytes_max,
            "refusals": list(route.refusals),
            "query": [
                {"name": p.name, "form": p.form}
                if isinstance(p, Word)
                else {"name": p.name, "least": p.least, "most": p.most, "default": p.default}
                for p in route.query
            ],
            "request": route.request is not None,
            "answer": "bytes" if route.answer is None else "json",
        }
        for route in ROUTES
    }
    stored.check("wire/routes.json", stored.pretty(rows))


def test_the_headers_and_limits_of_the_interface() -> None:
    rows = {
        "generation": messages.GENERATION,
        "records in a page": messages.PAGE_RECORDS,
        "links in a page": messages.PAGE_LINKS,
        "window of a signed request": http_signature.WINDOW_S,
        "headers of a signed request": [http_signature.FLEET, http_signature.TO, http_signature.DIGEST],
        "headers of a signed answer": [http_signature.TIME, http_signature.NONCE],
        "header of a session": session_header.HEADER,
    }
    stored.check("wire/headers.json", stored.pretty(rows))
