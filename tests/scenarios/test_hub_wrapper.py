"""Whoever reaches a handler was identified and permitted before; handlers ask nobody who he is (F-27, M-17)."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from holdfast.hub.http import permissions, routes
from holdfast.hub.http.request import Request
from holdfast.hub.http.route import Route
from holdfast.model.backup_key import sealed
from holdfast.model.principal import Principal
from tests.fleets.build import commit, mailbox, operator_signer, small_fleet
from tests.fleets.serving import ALICE, NOBODY, Caller, Holder, Machine, Person, Served, raw, request, served

reached: list[tuple[str, Principal]] = []


def watched(route: Route) -> Route:
    """The same route; who comes as far as its handler is noted, and turned away there."""

    def seen(handler: object, request: Request) -> bytes:
        reached.append((route.operation, request.principal))
        return b"{}"

    async def seen_by_the_fleet(handler: object, request: Request) -> bytes:
        return seen(handler, request)

    return replace(route, run=seen_by_the_fleet if route.cost == "fleet" else seen)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    mail = mailbox()
    commit(mail, small_fleet(("web",), ("w1", "w2")))
    reached.clear()
    with served(mail) as found:
        found.joined("w1")
        monkeypatch.setattr(routes, "ROUTES", tuple(watched(route) for route in routes.ROUTES))
        yield found


def filled(route: Route, fleet_id: str) -> str:
    path = route.path.replace("{number}", "1").replace("{digest}", "0" * 64).replace("{token}", "0" * 16)
    path = path.replace("{order}", "0" * 32)
    if path in ("/v1/backup-objects", "/v1/move-objects"):  # what may be stored is checked before the body is read
        return path + f"?key={sealed(fleet_id, 'web', 1, 'packs', b'')}"
    return path + ("?first=1&last=1" if path == "/v1/links" else "")


def forged(hub: Served, route: Route) -> bytes:
    """Signed by a node, then aimed at something else: the signature no longer fits."""
    body = b"{}" if route.method == "POST" else None
    sent = request(hub, route.method, "/v1/head", body, Machine("w1"))
    return sent.replace(b" /v1/head ", f" {filled(route, hub.fleet_id)} ".encode(), 1)


def test_no_handler_meets_somebody_who_was_not_let_in(hub: Served) -> None:
    """M-17: first who it is, then whether this kind of caller may; what fails either never gets to the handler."""
    callers: list[tuple[Caller, str]] = [
        (NOBODY, "anonymous"),
        (Holder("hf_0123456789abcdef_" + "A" * 43), "refused"),
        (Person("mallory", operator_signer("mallory")[1]), "refused"),
        (Machine("nobody knows me"), "joining"),
        (Machine("w1"), "node"),
        (hub.token(), "viewer"),
        (ALICE, "operator"),
    ]
    for route in routes.ROUTES:
        for caller, kind in callers:
            reached.clear()
            body = b"{}" if route.method == "POST" else None
            answer = hub.signed(route.method, filled(route, hub.fleet_id), body, caller)
            public = route.operation in permissions.PUBLIC
            allowed = public or kind in permissions.ALLOWED[route.operation]
            if allowed and route.operation == "stream":  # let in, and told that a plain request opens no stream
                assert answer.status == 400 and not reached, (kind, answer)
                continue
            if allowed and route.operation == "hand-over" and route.check:  # let in, and told that no service moves
                assert answer.status == 404 and not reached, (kind, answer)
                continue
            assert bool(reached) is allowed, (route, kind, answer)
            assert answer.status in ((200,) if allowed else (401, 403)), (route, kind, answer)
            if reached and not public:
                assert [(operation, who.kind) for operation, who in reached] == [(route.operation, kind)]
        reached.clear()
        if route.path != "/v1/head" and route.operation not in permissions.PUBLIC:
            assert raw(hub, forged(hub, route)).status == 401 and not reached, route


def test_a_body_that_was_not_signed_reaches_no_handler(hub: Served) -> None:
    """F-27: also not when everything else of the request is in order."""
    for route in routes.ROUTES:
        if route.request is None:
            continue
        sent = request(
            hub,
            route.method,
            filled(route, hub.fleet_id),
            b'{"a":1}',
            ALICE if "operator" in route.permission.kinds else Machine("w1"),
        )
        answer = raw(hub, sent[:-1] + b" ")
        # before its body is read, w1 is told that no service of it moves (tests/specs/hub/test_move_access.py)
        early = (404,) if route.operation == "hand-over" and route.check else ()
        assert answer.status in (401, 403, *early), (route, answer)
    assert reached == []
