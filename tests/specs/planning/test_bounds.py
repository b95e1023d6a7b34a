"""A scope bounds names and places, not only an address (X11)."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.fleet import FleetDocument, Node, Settings
from holdfast.model.revision import Entry, Table
from holdfast.model.route import PublicRoute
from holdfast.planning.bounds import Bounds, is_own

SETTINGS = Settings("home", internal_zone="svc.lab.test", public_domains=("example.com", "shop.example.com"))
NODES = {
    "w1": Node("w1", ("worker",)),
    "w2": Node("w2", ("worker", "edge")),
    "hub1": Node("hub1", ("hub",)),
    "p1": Node("p1", ("provider", "builder")),
}


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("web.example.com", True),
        ("api.web.example.com", True),
        ("web.shop.example.com", True),
        ("web.svc.lab.test", True),
        ("web.web.svc.lab.test", True),
        ("example.com", False),
        ("shop.example.com", False),
        ("www.example.com", False),
        ("xweb.example.com", False),
        ("web.www.example.com", False),
        ("web.login.shop.example.com", False),
        ("billing.svc.lab.test", False),
        ("web.billing.svc.lab.test", False),
        ("svc.lab.test", False),
        ("web.elsewhere.test", False),
    ],
)
def test_own_is_the_name_of_the_service_in_a_domain_or_in_the_zone_and_what_is_below_it_x11(
    name: str, own: bool
) -> None:
    assert is_own(name, "web", SETTINGS) == own


def test_a_service_named_like_an_inner_domain_does_not_own_that_domain() -> None:
    assert not is_own("shop.example.com", "shop", SETTINGS)
    assert not is_own("web.shop.example.com", "shop", SETTINGS)
    assert is_own("shop.shop.example.com", "shop", SETTINGS)


def of(value: Any) -> tuple[str, bytes]:
    text = canonical.encode(value)
    return canonical.digest(text), text


def tables(before: Entry | None, after: Entry, was: Mapping[str, Any] = {}) -> Bounds:
    """`was`: documents that the table before has otherwise."""
    documents: dict[str, Any] = {"fleet": FleetDocument(SETTINGS), **{f"node.{n}": node for n, node in NODES.items()}}
    contents: dict[str, bytes] = {}

    def entries(found: Mapping[str, Any]) -> dict[str, Entry]:
        pairs = {address: of(value) for address, value in found.items()}
        contents.update(pairs.values())
        return {address: Entry(digest) for address, (digest, _) in pairs.items()}

    old, new = entries({**documents, **was}), entries(documents)
    if before is not None:
        old["service.web"] = before
    return Bounds(Table(old), Table({**new, "service.web": after}), contents, contents)


def placed(node: str, *names: str, failover: tuple[str, ...] = ()) -> Entry:
    return Entry("0" * 64, node=node, hostnames=names, failover=failover)


@pytest.mark.parametrize(
    ("before", "after", "claims", "destroys"),
    [
        (None, placed("w1", "web.example.com"), ["worker:w1"], 0),
        (None, placed("w1", "login.example.com"), ["name:login.example.com", "worker:w1"], 0),
        (placed("w1"), placed("w1", "example.com"), ["name:example.com"], 0),
        (placed("w1", "login.example.com"), placed("w1", "login.example.com", "web.example.com"), [], 0),
        (placed("w1"), placed("w2"), ["worker:w2"], 0),
        (placed("w1"), placed("hub1"), ["node:hub1"], 1),
        (None, placed("p1"), ["node:p1"], 1),
        (placed("hub1"), placed("hub1"), [], 0),
        (placed("w1"), placed("w1", failover=("hub1", "w2")), ["node:hub1", "worker:w2"], 1),
    ],
)
def test_what_a_change_takes_beyond_its_own_is_a_claim_x11(
    before: Entry | None, after: Entry, claims: list[str], destroys: int
) -> None:
    bounds = tables(before, after)
    assert list(bounds.claims("service.web")) == claims
    assert [d.grade for d in bounds.demands("service.web")] == ["destroy"] * destroys


@pytest.mark.parametrize(
    "entry",
    [
        placed("w1", "login.example.com"),
        replace(placed("w1"), names=("login.example.com",)),
        replace(placed("w1"), public={"login.example.com": PublicRoute("main", "http", "e1", "http.web.svc.lab.test")}),
    ],
    ids=["hostnames", "internal names", "public routes"],
)
def test_a_name_is_claimed_wherever_an_entry_has_it(entry: Entry) -> None:
    assert list(tables(placed("w1"), entry).claims("service.web")) == ["name:login.example.com"]


def test_a_node_that_the_same_revision_adds_has_the_roles_that_it_is_added_with() -> None:
    bounds = tables(placed("w1"), placed("hub1"))
    del bounds._before.entries["node.hub1"]
    assert list(bounds.claims("service.web")) == ["node:hub1"]
    assert [demand.grade for demand in bounds.demands("service.web")] == ["destroy"]


def test_roles_and_domains_count_as_they_were_before_the_change() -> None:
    """A revision that also makes hub1 a worker and login.example.com a domain proves nothing by that to a node which
    follows neither."""
    was = {"fleet": FleetDocument(Settings("home", public_domains=("example.com",)))}
    taken = placed("w1", "web.shop.example.com")
    assert list(tables(placed("w1"), taken, was).claims("service.web")) == ["name:web.shop.example.com"]
    bounds = tables(placed("w1"), placed("w2"), {"node.w2": Node("w2", ("edge", "hub"))})
    assert list(bounds.claims("service.web")) == ["node:w2"]
