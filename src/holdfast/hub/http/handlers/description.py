"""Is the hub answering, and what does it offer? Open to every caller."""

from holdfast.hub.http.operation import EVERY_CALLER, Operation
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import Route
from holdfast.wire import codec, messages

HEALTH = Operation("health", "ask if the process answers", EVERY_CALLER)
DESCRIBE = Operation("describe", "read the description of the HTTP interface", EVERY_CALLER)


class Description:
    def __init__(self, document: bytes) -> None:
        self._document = document

    def health(self, request: Request) -> bytes:
        return codec.write(messages.HealthAnswer())

    def openapi(self, request: Request) -> bytes:
        return self._document


ROUTES = (
    Route(
        "GET",
        "/healthz",
        HEALTH,
        "Is this process answering?",
        Description,
        Description.health,
        messages.HealthAnswer,
    ),
    Route("GET", "/openapi.json", DESCRIBE, "This description", Description, Description.openapi, dict),
)
