"""A signer of one service changes what is about that service, and nothing of another's, whatever the hub helps with."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.agent import reach_judgement
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Entry
from holdfast.model.route import EdgeRoute

ZONE = "svc.test"
DIGEST = "0" * 64


def route(service: str, node: str = "w1", address: str = "100.64.0.1") -> EdgeRoute:
    return EdgeRoute(service, "app", "http", node, address, f"app.{service}.{ZONE}", 1)


BEFORE = NodeManifest(
    "fleet",
    "e1",
    DIGEST,
    Entry(DIGEST),
    edge={"web.example.test": route("web"), "shop.example.test": route("shop")},
    issuers={"w1": b"of w1"},
    names={f"app.web.{ZONE}": "100.64.0.1", f"web.{ZONE}": "100.64.0.1", f"app.shop.{ZONE}": "100.64.0.1"},
)


def only(*addresses: str) -> Callable[[str], str | None]:
    return lambda address: None if address in addresses else f"its signer may not sign for {address}"


def judged(after: NodeManifest, *scope: str, said: NodeManifest = BEFORE) -> reach_judgement.Reach:
    return reach_judgement.judge(BEFORE, said, after, ZONE, only(*scope))


def test_what_belongs_to_the_service_is_followed() -> None:
    after = replace(
        BEFORE,
        edge={**BEFORE.edge, "web.example.test": route("web", "w2", "100.64.0.2")},
        issuers={**BEFORE.issuers, "w2": b"of w2"},
        names={**BEFORE.names, f"app.web.{ZONE}": "100.64.0.2", f"web.{ZONE}": "100.64.0.2"},
    )
    found = judged(after, "service.web")
    assert found.refused == {}
    assert (found.edge, found.issuers, found.names) == (after.edge, after.issuers, after.names)


def test_another_service_keeps_its_route_its_name_and_the_authority_of_its_node() -> None:
    after = replace(
        BEFORE,
        edge={**BEFORE.edge, "shop.example.test": route("shop", "w6", "100.64.6.6")},
        issuers={"w1": b"of an intruder"},
        names={**BEFORE.names, f"app.shop.{ZONE}": "100.64.6.6"},
    )
    found = judged(after, "service.web")
    assert (found.edge, found.issuers, found.names) == (BEFORE.edge, BEFORE.issuers, BEFORE.names)
    assert set(found.refused) == {"edge.shop.example.test", "issuer.w1", f"name.app.shop.{ZONE}"}


def test_a_hostname_is_not_taken_over_by_calling_it_ones_own() -> None:
    after = replace(BEFORE, edge={**BEFORE.edge, "shop.example.test": route("web")})
    found = judged(after, "service.web")
    assert found.edge == BEFORE.edge and set(found.refused) == {"edge.shop.example.test"}


def test_nothing_of_another_service_is_taken_away() -> None:
    after = replace(BEFORE, edge={"web.example.test": route("web")}, names={}, issuers={})
    found = judged(after, "service.web")
    assert found.edge == BEFORE.edge and found.names == {f"app.shop.{ZONE}": "100.64.0.1"}
    assert {"edge.shop.example.test", f"name.app.shop.{ZONE}"} <= set(found.refused)
    assert found.issuers == BEFORE.issuers, "the route that stays needs it"


def test_the_first_route_to_a_node_brings_its_authority_only_with_who_may_sign_for_the_route() -> None:
    led = replace(
        BEFORE, edge={**BEFORE.edge, "new.example.test": route("new", "w3")}, issuers={"w1": b"of w1", "w3": b"3"}
    )
    assert judged(led, "service.new").issuers == led.issuers
    assert judged(led, "service.web").issuers == BEFORE.issuers
    silent = replace(BEFORE, issuers={"w1": b"of w1", "w3": b"3"})
    assert judged(silent, "service.web").refused == {}, (
        "an authority that nothing leads to is believed nothing by anybody"
    )


def test_a_further_name_that_is_called_after_nobody_needs_who_may_sign_for_all() -> None:
    after = replace(BEFORE, names={**BEFORE.names, f"legacy.{ZONE}": "100.64.0.9"})
    assert set(judged(after, "service.web").refused) == {f"name.legacy.{ZONE}"}
    assert judged(after, "service.legacy").refused == {}


def test_what_an_earlier_revision_was_refused_stays_refused_until_one_changes_it() -> None:
    said = replace(BEFORE, edge={**BEFORE.edge, "shop.example.test": route("shop", "w6")})
    found = judged(said, "service.web", "service.shop", said=said)
    assert found.edge == BEFORE.edge and set(found.refused) == {"edge.shop.example.test"}
    again = replace(BEFORE, edge={**BEFORE.edge, "shop.example.test": route("shop", "w7")})
    assert judged(again, "service.shop", said=said).edge == again.edge
    assert set(reach_judgement.differing(said, BEFORE)) == {"edge.shop.example.test"}
