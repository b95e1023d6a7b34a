"""The HTTP interface and its description are one: every route, every answer, every refusal (contract, HTTP)."""

import re
from typing import Any

import jsonschema_rs
import pytest
from msgspec import json

from holdfast.hub import openapi, routes
from holdfast.hub.desk import Ask, Desk
from holdfast.hub.routes import ROUTES, Route
from holdfast.model.applied import Applied
from holdfast.model.revision import Candidate
from holdfast.wire import codec, faults, messages
from tests.fleets.build import grown_mailbox, next_candidate, small_fleet

DOCUMENT: dict[str, Any] = json.decode(openapi.document())


def schema_of(route: Route, status: str) -> dict[str, Any]:
    """The documented schema, with everything it refers to."""
    content = DOCUMENT["paths"][route.path][route.method.lower()]["responses"][status]["content"]
    return {**content["application/json"]["schema"], "components": DOCUMENT["components"]}


def ask_of(route: Route, applied: Applied, candidate: Candidate) -> Ask:
    bodies = {"commit": codec.write(messages.commit_request(candidate)), "mend": b'{"blobs":{}}'}
    path = {"number": 1, "digest": applied.table.entries["fleet"].digest}
    return Ask(path, {"newest": 0, "limit": 5, "first": 1, "last": 2}, bodies.get(route.run.__name__, b""))


def test_every_route_is_described_and_nothing_else() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names) == len(ROUTES)


def test_every_reference_leads_somewhere() -> None:
    named = set(re.findall(r"#/components/schemas/(\w+)", openapi.document().decode()))
    assert named == set(DOCUMENT["components"]["schemas"])


@pytest.mark.parametrize("route", [route for route in ROUTES if route.answer is not None], ids=lambda r: r.path)
def test_what_is_sent_is_what_is_described(route: Route) -> None:
    hub = grown_mailbox(2)
    applied = hub.applied()
    assert applied is not None
    ask = ask_of(route, applied, next_candidate(small_fleet({"web": 3}), applied))
    sent = json.decode(route.run(Desk(hub, openapi.document()), ask))
    jsonschema_rs.validator_for(schema_of(route, "200")).validate(sent)


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_every_refusal_is_described_with_the_same_three_words(route: Route) -> None:
    described = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
    assert set(described) >= {"200", "403", "429", "503", "default", *map(str, route.refusals)}
    fault = json.decode(codec.write(faults.Fault("code", "message", "remedy")))
    for status in set(described) - {"200"}:
        check = jsonschema_rs.validator_for(schema_of(route, status))
        check.validate(fault)
        assert not check.is_valid({"code": "x"})


@pytest.mark.parametrize("route", [route for route in ROUTES if route.request is not None], ids=lambda r: r.path)
def test_what_is_described_as_a_request_is_what_is_read(route: Route) -> None:
    body = DOCUMENT["paths"][route.path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    check = jsonschema_rs.validator_for({**body, "components": DOCUMENT["components"]})
    request = messages.commit_request(next_candidate(small_fleet(), None))
    for message in (request, messages.MendRequest(request.blobs)):
        if type(message) is route.request:
            check.validate(json.decode(codec.write(message)))
    assert not check.is_valid({"blobs": []})


def test_a_query_parameter_has_the_bounds_it_is_checked_with() -> None:
    for route in ROUTES:
        written = DOCUMENT["paths"][route.path][route.method.lower()]["parameters"]
        for parameter in route.query:
            schema = next(p["schema"] for p in written if p["name"] == parameter.name)
            assert (schema["minimum"], schema["maximum"]) == (parameter.least, parameter.most)
            for good in (parameter.least, parameter.most):
                others = [(p.name, "1") for p in route.query if p is not parameter]
                assert routes.query_values(route, [(parameter.name, str(good)), *others])[parameter.name] == good
