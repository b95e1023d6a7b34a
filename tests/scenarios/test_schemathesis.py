"""A machine reads /openapi.json and tries everything it allows and forbids: no failure, no surprise (S03)."""

from typing import Any

import hypothesis
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from holdfast.hub.routes import ROUTES
from tests.fleets.build import grown_mailbox
from tests.fleets.serving import get, served

EXAMPLES_PER_OPERATION = 30
CHECKED = [
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
]


def test_no_request_that_can_be_made_from_the_description_breaks_the_hub() -> None:
    tried: dict[str, int] = {}
    with served(grown_mailbox(3)) as port:
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
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
                tried[case.operation.label] = tried.get(case.operation.label, 0) + 1
                case.call_and_validate(checks=CHECKED)

            attempt()
        assert get(port, "/v1/head").json()["head"]["number"] == 3
    described = {f"{route.method} {route.path}" for route in ROUTES}
    assert tried.keys() == described - {"GET /openapi.json"}  # read to begin with
    assert sum(tried.values()) > 150
