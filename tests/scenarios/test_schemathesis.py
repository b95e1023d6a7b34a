"""A machine reads /openapi.json and tries everything it allows and forbids: no failure, no surprise (S03)."""

from typing import Any

import hypothesis
import msgspec
import requests
import schemathesis
import urllib3
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from holdfast.errors import Unauthenticated
from holdfast.hub.http import openapi, permissions
from holdfast.hub.http.routes import ROUTES
from tests.fleets.build import grown_mailbox
from tests.fleets.counts import SOAK
from tests.fleets.serving import ALICE, NOBODY, Caller, Machine, Served, get, served

EXAMPLES_PER_OPERATION = 220 if SOAK else 12
CHECKED = [
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
]


def whom(operation: str) -> tuple[Caller, ...]:
    """Whoever may, so that the request is looked at; and a stranger."""
    if operation in ("write-backup", "delete-backup"):
        return Machine("w1"), NOBODY
    may = ALICE if "operator" in permissions.ALLOWED[operation] else Machine("a stranger's node")
    return may, NOBODY


def signed(hub: Served, who: Caller, prepared: Any) -> Any:
    """The hook: signs what the machine made up, after it is final and before it is sent."""
    target = prepared.path_url
    body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
    try:
        prepared.headers.update(who.headers(hub, prepared.method, target, body or None))
    except Unauthenticated:
        return prepared  # cannot be signed; then it is refused for that
    return prepared


def test_no_request_that_can_be_made_from_the_description_breaks_the_hub() -> None:
    urllib3.disable_warnings()
    tried: dict[str, int] = {}
    statuses: dict[int, int] = {}
    operations = {f"{route.method} {route.path}": route.operation for route in ROUTES}
    with served(grown_mailbox(3)) as hub, requests.Session() as session:
        hub.joined("w1")
        schema = schemathesis.openapi.from_dict(msgspec.json.decode(openapi.document()))
        for found in schema.get_all_operations():
            assert isinstance(found, Ok)
            operation = found.ok()

            @hypothesis.given(
                case=operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
                | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
                if operation.query or operation.path_parameters or operation.body
                else operation.as_strategy()
            )
            @hypothesis.settings(
                max_examples=EXAMPLES_PER_OPERATION,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            def attempt(case: schemathesis.Case[Any]) -> None:
                count = tried[case.operation.label] = tried.get(case.operation.label, 0) + 1
                who = whom(operations[case.operation.label])[count % 5 == 0]
                answer = case.call(
                    base_url=hub.url,
                    session=session,
                    verify=False,
                    auth=lambda prepared: signed(hub, who, prepared),
                    timeout=60,
                )
                statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
                case.validate_response(answer, checks=CHECKED)

            attempt()
        assert get(hub, "/v1/head").json()["head"]["number"] == 3
    assert tried.keys() == operations.keys()
    assert sum(tried.values()) > 200
    assert max(statuses) < 500
    assert statuses[200] > 50, "what it is allowed to do was done, too"
