"""The OpenAPI description of the HTTP interface, made from the route table and the message types. Pure."""

import re
from typing import Any

import msgspec

from holdfast.hub.http import permissions
from holdfast.hub.http.route import Parameter, Route, Word
from holdfast.hub.http.routes import ROUTES
from holdfast.hub.http.serving.responses import BYTES
from holdfast.model.ids import DIGEST_PATTERN
from holdfast.model.token import TOKEN_ID_PATTERN
from holdfast.ports.http_server import JSON
from holdfast.wire.faults import EXIT_HEADER, Fault

REASONS = {
    400: "The request is malformed, its body is not declared as JSON, or a digest does not match",
    401: "No valid credential; `clock_skew` carries the hub's time, signed by the hub",
    403: "Sent by a web page (`cross_site`), not permitted to this caller, or lacking operators' signatures",
    404: "Not found",
    408: "The request did not arrive in time",
    409: "Another change came first, or the hub's ledger is damaged: see `code`",
    413: "The body is too long",
    415: "The body is compressed",
    417: "The request expects something other than 100-continue",
    429: "Too many requests; try again later",
    503: "Not available now; try again later",
}
ALWAYS = (401, 403, 429, 503)
_SIGNED, _TOKEN = "signature", "token"
SCHEMES = {
    _SIGNED: {
        "type": "apiKey",
        "in": "header",
        "name": "Signature-Input",
        "description": "RFC 9421 over method, path, query, body digest, fleet and recipient, by an Ed25519 key; people "
        "add the certificate of their session in Holdfast-Session",
    },
    _TOKEN: {"type": "http", "scheme": "bearer", "description": "holdfast token create; reads only"},
}
_PLAIN = {BYTES: {"schema": {"type": "string", "format": "binary"}}}
_PATH_SCHEMA: dict[str, dict[str, Any]] = {
    "number": {"type": "integer", "minimum": 1, "maximum": 999_999_999_999_999},
    "digest": {"type": "string", "pattern": DIGEST_PATTERN},
    "token": {"type": "string", "pattern": TOKEN_ID_PATTERN},
    "order": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
}


def document() -> bytes:
    return msgspec.json.encode(description())


def description() -> dict[str, Any]:
    types = [kind for route in ROUTES for kind in (route.answer, route.request) if kind not in (None, dict, bytes)]
    _, components = msgspec.json.schema_components([*types, Fault], ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast hub",
            "version": "1",
            "description": "The hub stores and serves what operators signed. Bytes are base64 in JSON.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": SCHEMES},
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.run.__name__,
        "summary": route.summary,
        "parameters": [_in_path(name) for name in re.findall(r"\{(\w+)\}", route.path)]
        + [_in_query(parameter) for parameter in route.query],
        "responses": {"200": _answer(route)} | {str(s): _fault(REASONS[s]) for s in sorted({*route.refusals, *ALWAYS})},
    }
    operation["responses"]["default"] = _fault("Any other failure")
    operation["security"] = _security(route)
    if route.request is not None:
        operation["requestBody"] = {"required": True, "content": _body(route.request)}
    return operation


def _body(kind: type) -> dict[str, Any]:
    return _PLAIN if kind is bytes else {JSON: {"schema": _schema(kind)}}


def _security(route: Route) -> list[dict[str, list[str]]]:
    """None needed, a signature, or either of signature and token."""
    if route.operation in permissions.PUBLIC:
        return []
    schemes = (_SIGNED, _TOKEN) if "viewer" in permissions.ALLOWED[route.operation] else (_SIGNED,)
    return [{scheme: []} for scheme in schemes]


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _PATH_SCHEMA[name]}


def _in_query(parameter: Parameter | Word) -> dict[str, Any]:
    if isinstance(parameter, Word):
        named: dict[str, Any] = {"type": "string", "pattern": f"^{parameter.form}$"}
        return {"name": parameter.name, "in": "query", "required": False, "schema": named}
    schema: dict[str, Any] = {"type": "integer", "minimum": parameter.least, "maximum": parameter.most}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {"name": parameter.name, "in": "query", "required": parameter.default is None, "schema": schema}


def _answer(route: Route) -> dict[str, Any]:
    if route.answer is None:
        return {"description": "The bytes", "content": _PLAIN}
    schema = {"type": "object"} if route.answer is dict else _schema(route.answer)
    return {"description": "Done", "content": {JSON: {"schema": schema}}}


def _fault(reason: str) -> dict[str, Any]:
    exit_code = {"description": "exit code of the same failure at the command line", "schema": {"type": "integer"}}
    return {
        "description": reason,
        "headers": {EXIT_HEADER: exit_code},
        "content": {JSON: {"schema": _schema(Fault)}},
    }


def _schema(kind: type) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
