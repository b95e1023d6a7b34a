"""The HTTP interface and its description are one: every route, every answer, every refusal (contract, HTTP)."""

import re
from typing import Any

import jsonschema_rs
import pytest
from msgspec import json

from holdfast.adapters.backup_target.memory_objects import MemoryObjects
from holdfast.errors import Invalid
from holdfast.hub.backups.store import BackupStore
from holdfast.hub.http import openapi, permissions, routes
from holdfast.hub.http.handlers.backups import Backups
from holdfast.hub.http.handlers.hub_file import HubFile
from holdfast.hub.http.handlers.moves import Moves
from holdfast.hub.http.limiter import Limiter
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import Parameter, Route
from holdfast.hub.http.routes import ROUTES
from holdfast.model.applied import Applied
from holdfast.model.backup_key import sealed
from holdfast.model.checkin import CheckIn, JoinRequest
from holdfast.model.invite import Enrolment, SignedInvite, SignedRevocation
from holdfast.model.order import SignedOrder
from holdfast.model.principal import Principal
from holdfast.model.report import SignedPulse
from holdfast.model.revision import Candidate
from holdfast.model.salvage import SalvagePart
from holdfast.wire import codec, faults, messages, token_messages
from holdfast.wire.backup_messages import PresentRequest
from holdfast.wiring import hub_http
from tests.fleets.build import grown_mailbox, next_candidate, small_fleet
from tests.fleets.exchange import asked
from tests.fleets.serving import parts_of

DOCUMENT: dict[str, Any] = json.decode(openapi.document())
OBJECT = b"sealed"


def schema_of(route: Route, status: str) -> dict[str, Any]:
    """The documented schema, with everything it refers to."""
    content = DOCUMENT["paths"][route.path][route.method.lower()]["responses"][status]["content"]
    return {**content["application/json"]["schema"], "components": DOCUMENT["components"]}


def ask_of(route: Route, applied: Applied, candidate: Candidate, token: str) -> Request:
    bodies = {
        "commit": codec.write(messages.commit_request(candidate)),
        "mend": b'{"blobs":{}}',
        "make_token": b"{}",
        "salvage": codec.write(SalvagePart(applied.fleet_id, "w1")),
    }
    bodies["present_backups"] = codec.write(PresentRequest((f"{applied.fleet_id[:16]}/web/g1/packs/{'0' * 64}",)))
    bodies["put_backup"] = OBJECT
    path = {"number": 1, "digest": applied.table.entries["fleet"].digest, "token": token}
    query = {
        "newest": 0,
        "limit": 5,
        "first": 1,
        "last": 2,
        "node": "",
        "names": "",
        "after": 0,
        "digests": path["digest"],
    }
    if route.handler is Backups:
        above = f"{applied.fleet_id[:16]}/web/"
        query |= {"prefix": above, "after": "", "first": 0, "key": sealed(applied.fleet_id, "web", 1, "packs", OBJECT)}
    who = Principal("node", "w1") if "operator" not in route.permission.kinds else Principal("operator", "alice")
    return asked(path, query, bodies.get(route.run.__name__, b""), who)


def test_every_route_is_described_and_nothing_else() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}


def test_every_route_has_a_handler_that_is_built_and_every_handler_a_route() -> None:
    parts, _ = parts_of(grown_mailbox(1))
    assert hub_http.handlers(parts, Limiter(parts.rates)).keys() == {route.handler for route in ROUTES}


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names) == len(ROUTES)


def test_every_reference_leads_somewhere() -> None:
    named = set(re.findall(r"#/components/schemas/(\w+)", openapi.document().decode()))
    assert named == set(DOCUMENT["components"]["schemas"])


# Those of moves need one: tests/specs/hub/test_move_access.py.
WITHOUT = (Moves, HubFile)
ANSWERED_AT_ONCE = [r for r in ROUTES if r.answer is not None and r.cost != "fleet" and r.handler not in WITHOUT]


@pytest.mark.parametrize("route", ANSWERED_AT_ONCE, ids=lambda r: f"{r.method} {r.path}")
def test_what_is_sent_is_what_is_described(route: Route) -> None:
    """The others, which need a fleet that lives, are tried in tests/scenarios/test_schemathesis.py and
    tests/contracts/test_hub_copy.py."""
    hub = grown_mailbox(2)
    parts, _ = parts_of(hub, backups=BackupStore(MemoryObjects(), lambda key, content, node: None, lambda key: True))
    applied = hub.applied()
    assert applied is not None
    token = parts.tokens.create(Principal("operator", "alice"), "t", 60).token.id
    ask = ask_of(route, applied, next_candidate(small_fleet({"web": 3}), applied), token)
    handler = hub_http.handlers(parts, Limiter(parts.rates))[route.handler]
    sent = json.decode(route.run(handler, ask))
    jsonschema_rs.validator_for(schema_of(route, "200")).validate(sent)


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_every_refusal_is_described_with_the_same_three_words(route: Route) -> None:
    described = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
    assert set(described) >= {"200", "401", "403", "429", "503", "default", *map(str, route.refusals)}
    fault = json.decode(codec.write(faults.Fault("code", "message", "remedy")))
    for status in set(described) - {"200"}:
        check = jsonschema_rs.validator_for(schema_of(route, status))
        check.validate(fault)
        assert not check.is_valid({"code": "x"})


READ_AS_JSON = [route for route in ROUTES if route.request not in (None, bytes)]


@pytest.mark.parametrize("route", READ_AS_JSON, ids=lambda r: r.path)
def test_what_is_described_as_a_request_is_what_is_read(route: Route) -> None:
    body = DOCUMENT["paths"][route.path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    check = jsonschema_rs.validator_for({**body, "components": DOCUMENT["components"]})
    request = messages.commit_request(next_candidate(small_fleet(), None))
    signed = SignedOrder(b"{}", b"{}", ("s",))
    enrolment = Enrolment(SignedInvite(b"{}", ("s",)), b"{}", "s", "p")
    samples = (
        request,
        messages.MendRequest(request.blobs),
        token_messages.TokenRequest("ci", 60),
        token_messages.RevokeTokenRequest(),
        messages.CancelOrderRequest(),
        signed,
        SignedRevocation(b"{}", ("s",)),
        CheckIn("w1", heartbeat=True, pulse=SignedPulse(b"{}", "s"), wait_s=10.0),
        JoinRequest(enrolment, "w1", ("worker",)),
        SalvagePart("f", "w1", manifest=b"{}"),
        PresentRequest(("key",)),
    )
    fitting = [message for message in samples if type(message) is route.request]
    assert len(fitting) == 1
    check.validate(json.decode(codec.write(fitting[0])))
    assert not check.is_valid([])


def test_a_request_of_plain_bytes_is_described_as_such() -> None:
    routes = [route for route in ROUTES if route.request is bytes]
    assert {route.path for route in routes} == {"/v1/backup-objects", "/v1/move-objects"}
    plain = {"schema": {"type": "string", "format": "binary"}}
    for route in routes:
        body = DOCUMENT["paths"][route.path][route.method.lower()]["requestBody"]
        assert body == {"required": True, "content": {"application/octet-stream": plain}}


def test_a_query_parameter_has_the_bounds_it_is_checked_with() -> None:
    for route in ROUTES:
        written = DOCUMENT["paths"][route.path][route.method.lower()]["parameters"]
        for parameter in (p for p in route.query if isinstance(p, Parameter)):
            schema = next(p["schema"] for p in written if p["name"] == parameter.name)
            assert (schema["minimum"], schema["maximum"]) == (parameter.least, parameter.most)
            for good in (parameter.least, parameter.most):
                others = [(p.name, "1") for p in route.query if p is not parameter and isinstance(p, Parameter)]
                assert routes.query_values(route, [(parameter.name, str(good)), *others])[parameter.name] == good


def test_a_name_in_a_query_is_checked_as_it_is_described() -> None:
    route = next(route for route in ROUTES if route.path == "/v1/audit")
    assert routes.query_values(route, [])["node"] == ""
    assert routes.query_values(route, [("node", "w1")])["node"] == "w1"
    for wrong in ("", "W1", "w 1", "../w1", "w" * 41, "w1\n"):
        with pytest.raises(Invalid):
            routes.query_values(route, [("node", wrong)])
    with pytest.raises(Invalid):
        routes.query_values(route, [("node", "w1"), ("node", "w1")])


def test_every_route_says_what_it_needs_and_public_ones_that_they_need_nothing() -> None:
    for route in ROUTES:
        schemes = {
            name for choice in DOCUMENT["paths"][route.path][route.method.lower()]["security"] for name in choice
        }
        kinds = permissions.ALLOWED[route.operation]
        assert ("signature" in schemes) == (route.operation not in permissions.PUBLIC)
        assert ("token" in schemes) == ("viewer" in kinds and route.operation not in permissions.PUBLIC)
