"""A signer of one service changes what is about that service, and nothing of another's, whatever the hub helps with."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from holdfast.agent.acceptance import route_grades
from holdfast.model.fleet import Grade
from holdfast.model.manifest import Named, NodeManifest
from holdfast.model.move import Move, Peer
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
    names={
        "web": Named("100.64.0.1", (f"app.web.{ZONE}", f"web.{ZONE}")),
        "shop": Named("100.64.0.1", (f"app.shop.{ZONE}",)),
    },
)


def only(*addresses: str) -> Callable[[Sequence[str], Grade], str | None]:
    """An operator of grade apply with that scope."""

    def lacking(covers: Sequence[str], grade: Grade) -> str | None:
        outside = [one for one in covers if one not in addresses or grade != "apply"]
        return f"no signature for {outside[0]}" if outside else None

    return lacking


def judged(after: NodeManifest, *scope: str, said: NodeManifest = BEFORE) -> route_grades.Reach:
    return route_grades.judge(BEFORE, said, after, only(*scope))


def test_what_belongs_to_the_service_is_followed() -> None:
    after = replace(
        BEFORE,
        edge={**BEFORE.edge, "web.example.test": route("web", "w2", "100.64.0.2")},
        issuers={**BEFORE.issuers, "w2": b"of w2"},
        names={**BEFORE.names, "web": Named("100.64.0.2", (f"api.{ZONE}", f"app.web.{ZONE}"))},
    )
    found = judged(after, "service.web")
    assert found.refused == {}
    assert (found.edge, found.issuers, found.names) == (after.edge, after.issuers, after.names)


def test_another_service_keeps_its_route_its_name_and_the_authority_of_its_node() -> None:
    after = replace(
        BEFORE,
        edge={**BEFORE.edge, "shop.example.test": route("shop", "w6", "100.64.6.6")},
        issuers={"w1": b"of an intruder"},
        names={**BEFORE.names, "shop": Named("100.64.6.6", (f"app.shop.{ZONE}",))},
    )
    found = judged(after, "service.web")
    assert (found.edge, found.issuers, found.names) == (BEFORE.edge, BEFORE.issuers, BEFORE.names)
    assert set(found.refused) == {"edge.shop.example.test", "issuer.w1", "name.shop"}


def test_a_hostname_is_not_taken_over_by_calling_it_ones_own() -> None:
    after = replace(BEFORE, edge={**BEFORE.edge, "shop.example.test": route("web")})
    found = judged(after, "service.web")
    assert found.edge == BEFORE.edge and set(found.refused) == {"edge.shop.example.test"}


def test_nothing_of_another_service_is_taken_away() -> None:
    after = replace(BEFORE, edge={"web.example.test": route("web")}, names={}, issuers={})
    found = judged(after, "service.web")
    assert found.edge == BEFORE.edge and found.names == {"shop": BEFORE.names["shop"]}
    assert {"edge.shop.example.test", "name.shop"} <= set(found.refused)
    assert found.issuers == BEFORE.issuers, "the route that stays needs it"


def test_the_first_route_to_a_node_brings_its_authority_only_with_who_may_sign_for_the_route() -> None:
    led = replace(
        BEFORE, edge={**BEFORE.edge, "new.example.test": route("new", "w3")}, issuers={"w1": b"of w1", "w3": b"3"}
    )
    assert judged(led, "service.new").issuers == led.issuers
    assert judged(led, "service.web").issuers == BEFORE.issuers
    silent = replace(BEFORE, issuers={"w1": b"of w1", "w3": b"3"})
    planted = judged(silent, "service.web")
    assert planted.issuers == BEFORE.issuers, "else the next signer of a route to w3 could not replace it"
    assert set(planted.refused) == {"issuer.w3"}


def test_a_name_of_another_service_is_not_taken_by_listing_it_as_ones_own() -> None:
    after = replace(BEFORE, names={**BEFORE.names, "web": Named("100.64.6.6", (f"app.shop.{ZONE}", f"web.{ZONE}"))})
    found = judged(after, "service.web")
    assert found.names == BEFORE.names and set(found.refused) == {"name.web"}
    both = replace(BEFORE, names={"web": Named("100.64.6.6", (f"app.shop.{ZONE}",))})
    assert judged(both, "service.web", "service.shop").names == both.names, (
        "its owner gave it away in the same revision"
    )


def test_the_authority_of_a_known_node_needs_the_grade_of_its_key() -> None:
    after = replace(BEFORE, issuers={"w1": b"of an intruder"})
    found = judged(after, "service.web", "service.shop", "node.w1")
    assert found.issuers == BEFORE.issuers and set(found.refused) == {"issuer.w1"}
    signed = route_grades.judge(BEFORE, BEFORE, after, lambda address, grade: None)
    assert signed.issuers == after.issuers and not signed.refused


def test_what_an_earlier_revision_was_refused_stays_refused_until_one_changes_it() -> None:
    said = replace(BEFORE, edge={**BEFORE.edge, "shop.example.test": route("shop", "w6")})
    found = judged(said, "service.web", "service.shop", said=said)
    assert found.edge == BEFORE.edge and set(found.refused) == {"edge.shop.example.test"}
    again = replace(BEFORE, edge={**BEFORE.edge, "shop.example.test": route("shop", "w7")})
    assert judged(again, "service.shop", said=said).edge == again.edge
    assert set(route_grades.differing(said, BEFORE)) == {"edge.shop.example.test"}


# ---- peers: nodes that data goes to and comes from

KEY, OTHER = Peer("ssh-ed25519 of-w2", "100.64.0.2"), Peer("ssh-ed25519 of-another", "100.64.0.2")


def handing(*services: str, peer: Peer | None = KEY) -> NodeManifest:
    """w1 hands these over to w2."""
    moving = {f"service.{name}": Entry(DIGEST, "w2", 2, move=Move("w1")) for name in services}
    return replace(BEFORE, handover=moving, peers={"w2": peer} if peer is not None else {})


def peers_of(old: NodeManifest, after: NodeManifest, *scope: str, grade: Grade = "apply") -> dict[str, Peer]:
    def lacking(covers: Sequence[str], wanted: Grade) -> str | None:
        lower = wanted != "apply" and grade == "apply"
        return "not signed for" if lower or any(one not in scope for one in covers) else None

    return route_grades.judge(old, old, after, lacking).peers


def test_a_move_brings_its_peer_and_its_end_takes_it_away() -> None:
    assert peers_of(BEFORE, handing("web"), "service.web") == {"w2": KEY}
    assert peers_of(handing("web"), BEFORE, "service.web") == {}
    assert peers_of(BEFORE, handing("web"), "service.shop") == {}
    assert peers_of(handing("web"), BEFORE, "service.shop") == {"w2": KEY}


def test_the_peer_of_several_services_is_brought_by_the_signers_of_all() -> None:
    both = handing("shop", "web")
    assert peers_of(BEFORE, both, "service.web") == {}
    assert peers_of(BEFORE, both, "service.web", "service.shop") == {"w2": KEY}


def test_a_backup_that_came_from_a_node_makes_no_peer_of_it() -> None:
    here = Entry(DIGEST, "w1", 2, move=Move("w2", backup="0" * 64))
    old = replace(BEFORE, services={"service.shop": here})
    assert peers_of(old, replace(handing("web"), services=old.services), "service.web") == {"w2": KEY}


def test_a_known_peer_changes_with_the_grade_of_its_key_and_moves_with_its_node() -> None:
    one = handing("web")
    assert peers_of(one, handing("web", peer=OTHER), "service.web", "node.w2") == {"w2": KEY}
    assert peers_of(one, handing("web", peer=OTHER), "node.w2", grade="destroy") == {"w2": OTHER}
    moved = replace(KEY, address="100.64.0.9")
    assert peers_of(one, handing("web", peer=moved), "service.web") == {"w2": KEY}
    assert peers_of(one, handing("web", peer=moved), "node.w2") == {"w2": moved}


def test_a_new_move_uses_neither_of_two_keys_of_which_one_was_not_signed_for_it() -> None:
    assert peers_of(handing("shop", peer=OTHER), handing("shop", "web"), "service.web") == {}
    assert peers_of(handing("shop", peer=OTHER), handing("shop", "web"), "node.w2", grade="destroy") == {"w2": KEY}
