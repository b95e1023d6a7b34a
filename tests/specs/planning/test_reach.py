"""How a service is reached: in the table, in manifests, and what no service may ask for."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import Component, Dns, Fleet, Health, Node, Route, Service, Settings
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Entry, NodeIdentity, Table
from holdfast.model.route import EdgeRoute, Place, PublicRoute
from holdfast.planning import overlay
from holdfast.planning.kinds.every import documents
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.reach import complaints, reach
from holdfast.planning.rollback import plan_rollback
from holdfast.planning.succession import judge
from tests.fleets.build import commit, digest_pinned, edge_fleet, joined, mailbox, public_service, signed, small_service
from tests.fleets.hostnames import PUBLIC_DOMAIN, WRONG, ZONE

SETTINGS = Settings("lab", internal_zone=ZONE, public_domains=(PUBLIC_DOMAIN, "example.org"))


def service(*routes: Route, component: str = "web", **more: Any) -> Service:
    return Service((Component(component, digest_pinned("x"), routes=routes, **more),))


HTTP = Route("http", 8080)


def applied_at(hub: Revisions) -> Applied:
    applied = hub.applied()
    assert applied is not None
    return applied


def settled(fleet: Fleet) -> Revisions:
    """Applied, with every node's key and certificate recorded."""
    hub = mailbox()
    commit(hub, fleet)
    hub.commit(signed(plan(fleet, hub.applied(), Inputs(identities=joined(fleet)))))
    return hub


def manifest(hub: Revisions, node: str) -> NodeManifest:
    text = hub.blob(applied_at(hub).header.manifests[node])
    assert text is not None
    return canonical.decode(text, NodeManifest, "a manifest")


# ---- names ----------------------------------------------------------------------------------------------------------


def test_a_component_with_a_route_has_an_internal_name_and_one_named_like_its_service_a_short_one_m79() -> None:
    """M-79, M-134: <component>.<service>.<zone>; what is not reached has none."""
    idle = Component("idle", digest_pinned("x"))
    both = Service((*service(HTTP).components, *service(HTTP, component="shop").components, idle))
    assert reach("shop", both, SETTINGS).names == (
        "shop.shop.svc.example.com",
        "shop.svc.example.com",
        f"web.shop.{ZONE}",
    )


def test_a_public_service_has_two_names_m134_m136() -> None:
    """M-134, M-136: <service>.<domain> for browsers and <component>.<service>.<zone> for programs, of one route."""
    found = reach("shop", service(replace(HTTP, public=True)), SETTINGS)
    assert found.public == {"shop.example.com": PublicRoute("web", "http", "", f"web.shop.{ZONE}")}
    assert found.names == (f"web.shop.{ZONE}",)


def test_a_hostname_that_is_not_public_is_a_further_internal_name_m41() -> None:
    """M-41: without `public` it stays inside."""
    found = reach("shop", service(replace(HTTP, hostname=f"store.{ZONE}")), SETTINGS)
    assert (found.names, found.public) == ((f"store.{ZONE}", f"web.shop.{ZONE}"), {})


def test_bytes_are_passed_on_at_the_listener_of_their_port_m13() -> None:
    """M-13: 443, 8443 and 9443 as they are, everything else at 8443."""
    for port, listener in ((443, 443), (8443, 8443), (9443, 9443), (5432, 8443)):
        route = Route("raw", port, "l4", hostname="db.example.com", public=True)
        assert reach("db", service(route), SETTINGS).public["db.example.com"].listener == listener


# ---- manifests ------------------------------------------------------------------------------------------------------


def test_an_edge_is_told_where_its_hostnames_lead_and_whom_to_believe_there_m81() -> None:
    """M-78 (8–11): everything an edge does is in its own manifest; nobody else is told."""
    shop = replace(public_service("shop"), node="w1", failover=("w2",))
    hub = settled(edge_fleet({"shop": shop}, edges=("e1", "e2")))
    told = manifest(hub, "e1")
    route = EdgeRoute("shop", "main", "http", "w1", "100.64.0.3", "main.shop.svc.test", 1)
    assert told.edge == {"shop.example.test": replace(route, others=(Place("w2", "100.64.0.4"),))}
    assert told.issuers == {"w1": b"certificate of w1", "w2": b"certificate of w2"}
    for other in ("e2", "w1", "w2"):
        assert (manifest(hub, other).edge, manifest(hub, other).issuers) == ({}, {})


def test_an_edge_is_told_the_headers_that_a_route_has_passed_x10() -> None:
    hub = settled(edge_fleet({"shop": public_service("shop", pass_headers=("remote-user",))}))
    assert manifest(hub, "e1").edge["shop.example.test"].pass_headers == ("remote-user",)
    plain = settled(edge_fleet({"shop": public_service("shop")}))
    assert b"pass_headers" not in canonical.encode(manifest(plain, "e1"))


def test_whoever_serves_dns_knows_every_internal_name_c20() -> None:
    """C-20: records are compiled from the signed table, and lead to the node that runs the service."""
    fleet = edge_fleet({"shop": public_service("shop"), "api": small_service("api")})
    names = {"main.api.svc.test": "100.64.0.2", "main.shop.svc.test": "100.64.0.3"}
    assert [manifest(settled(fleet), node).records for node in fleet.nodes] == [names, names, names]
    few = settled(replace(fleet, dns=Dns(nodes=("w1",))))
    assert {node: manifest(few, node).records for node in fleet.nodes} == {"e1": {}, "w1": names, "w2": {}}
    none = settled(replace(fleet, dns=Dns("none")))
    assert not any(manifest(none, node).records for node in fleet.nodes)


def test_a_service_at_rest_has_no_name_and_no_route_and_keeps_its_edge() -> None:
    fleet = edge_fleet(edges=("e1", "e2"))
    hub = settled(fleet)
    commit(hub, replace(fleet, services={"shop": replace(public_service("shop"), active=False)}))
    assert (manifest(hub, "e1").edge, manifest(hub, "w1").records) == ({}, {})
    assert applied_at(hub).table.entries["service.shop"].public["shop.example.test"].edge == "e1"
    commit(hub, fleet)
    assert manifest(hub, "e1").edge.keys() == {"shop.example.test"}


def test_an_update_of_a_service_leaves_the_manifests_of_all_other_nodes_alone_m02() -> None:
    """M-02: what an edge and a name server do does not depend on which version runs."""
    fleet = edge_fleet()
    hub = settled(fleet)
    newer = replace(fleet, services={"shop": replace(public_service("shop:2"), protect=True)})
    assert plan(newer, hub.applied()).nodes_touched == ("w1",)


def test_manifests_are_the_same_bytes_whatever_order_things_come_in_i22() -> None:
    """I-22, and the same bytes that a manifest written in one piece has."""
    shop = replace(public_service("shop"), node="w1", failover=("w2",))
    fleet = edge_fleet({"shop": shop, "api": public_service("api")}, edges=("e1", "e2"))
    turned = replace(fleet, services=dict(reversed(fleet.services.items())), nodes=dict(reversed(fleet.nodes.items())))
    one, other = settled(fleet), settled(turned)
    assert applied_at(one).header.manifests == applied_at(other).header.manifests
    for node in fleet.nodes:
        text = one.blob(applied_at(one).header.manifests[node])
        assert text == canonical.encode(msgspec.json.decode(text or b"", type=NodeManifest))


def test_a_node_nobody_knows_the_address_of_leads_nowhere_and_is_told_of() -> None:
    fleet = edge_fleet()
    fleet = replace(fleet, nodes={name: replace(node, address="") for name, node in fleet.nodes.items()})
    hub = mailbox()
    commit(hub, fleet)
    keys = {name: NodeIdentity(one.key) for name, one in joined(fleet).items()}
    found = plan(fleet, hub.applied(), Inputs(identities=keys))
    assert "its address in the overlay" in found.warnings[0] and "the certificate" in found.warnings[0]
    hub.commit(signed(found))
    assert manifest(hub, "e1").edge["shop.example.test"].address == ""
    assert (manifest(hub, "w1").records, manifest(hub, "e1").issuers) == ({}, {})


def test_an_address_that_a_node_reports_is_recorded_unless_another_has_it_c25() -> None:
    """C-25: declared before reported before recorded; never outside the overlay, never two of one."""
    fleet = edge_fleet({"shop": small_service("shop")}, workers=("w1", "w2", "w3"), edges=())
    nodes = fleet.nodes | {name: replace(fleet.nodes[name], address="") for name in ("w2", "w3")}
    fleet = replace(fleet, nodes=nodes)
    hub = mailbox()
    commit(hub, fleet)

    def found(**reported: str) -> dict[str, str]:
        planned = plan(fleet, hub.applied(), Inputs(addresses=reported))
        if planned.candidate is not None:
            hub.commit(signed(planned))
        return {a[5:]: e.address for a, e in applied_at(hub).table.entries.items() if a.startswith("node.")}

    assert found(w2="100.64.9.2:9444", w3="10.0.0.1") == {"w1": "100.64.0.1", "w2": "100.64.9.2", "w3": ""}
    assert found(w1="100.64.9.9", w3="100.64.9.2")["w3"] == ""
    assert found(w3="100.64.0.1")["w3"] == ""
    assert found() == {"w1": "100.64.0.1", "w2": "100.64.9.2", "w3": ""}
    assert found(w2="w2.example.test", w3="[fd00::3]:1") == {"w1": "100.64.0.1", "w2": "100.64.9.2", "w3": ""}
    assert found(w2="100.64.9.3", w3="100.64.9.4") == {"w1": "100.64.0.1", "w2": "100.64.9.3", "w3": "100.64.9.4"}


def test_going_back_names_things_as_the_older_settings_did_and_keeps_edges_and_addresses() -> None:
    fleet = edge_fleet(edges=("e1", "e2"))
    hub = settled(fleet)
    then = applied_at(hub).table
    renamed = replace(fleet, settings=replace(fleet.settings, internal_zone="new.test"))
    commit(hub, replace(renamed, nodes={name: node for name, node in fleet.nodes.items() if name != "e1"}))
    assert applied_at(hub).table.entries["service.shop"].names == ("main.shop.new.test",)
    hub.commit(signed(plan_rollback(then, applied_at(hub))))
    shop = applied_at(hub).table.entries["service.shop"]
    assert shop.names == ("main.shop.svc.test",)
    assert shop.public["shop.example.test"].edge == "e2"


def test_going_back_to_what_an_older_release_wrote_records_what_that_did_not() -> None:
    hub = settled(edge_fleet())
    old = {
        address: replace(entry, address="", proxy="", dns=False, names=(), public={}, hostnames=())
        for address, entry in applied_at(hub).table.entries.items()
    }
    then = applied_at(hub).table
    commit(hub, edge_fleet({"shop": public_service("shop"), "blog": small_service("blog")}))
    hub.commit(signed(plan_rollback(Table(old), applied_at(hub))))
    assert applied_at(hub).table.entries == then.entries


# ---- what no service may ask for ------------------------------------------------------------------------------------


def one(name: str, declared: Service, settings: Settings = SETTINGS) -> tuple[str, str]:
    (found,) = complaints(name, declared, settings)
    return ".".join(map(str, found.at)), found.what


PUBLIC = replace(HTTP, public=True)


@pytest.mark.parametrize(
    ("declared", "at", "what"),
    [
        (
            service(Route("a", 8080, "l4", protocol="h2c")),
            "components.0.routes.0.protocol",
            "passes bytes through unread",
        ),
        (
            service(Route("a", 8080, "l4", pass_headers=("remote-user",))),
            "components.0.routes.0.pass_headers",
            "passes bytes through unread",
        ),
        *(
            (
                service(replace(HTTP, pass_headers=("remote-user", own))),
                "components.0.routes.0.pass_headers",
                f'"{own}" is written or read by the proxies themselves',
            )
            for own in ("x-forwarded-for", "forwarded", "x-envoy-retry-on", "x-holdfast-edge")
        ),
        (service(Route("a", 5432, "l4"), Route("b", 6379, "l4")), "components.0.routes.1", "both listen on port 8443"),
        (service(Route("a", 8443, "l4"), Route("b", 22, "l4")), "components.0.routes.1", "both listen on port 8443"),
        (service(HTTP, Route("b", 443, "l4")), "components.0.routes.1", "both listen on port 443"),
        (
            service(replace(HTTP, hostname="www.example.com")),
            "components.0.routes.0.hostname",
            "not within the internal",
        ),
        (service(replace(HTTP, hostname=f"a.nodes.{ZONE}")), "components.0.routes.0.hostname", "reserved for nodes"),
        (service(replace(PUBLIC, hostname=f"a.{ZONE}")), "components.0.routes.0.hostname", "never public"),
        (service(replace(PUBLIC, hostname="xexample.com")), "components.0.routes.0.hostname", "public_domains"),
        (
            service(replace(PUBLIC, hostname="a.example.com"), Route("b", 81, hostname="a.example.com", public=True)),
            "components.0.routes.1.hostname",
            "two routes of this service claim",
        ),
        (service(HTTP, component="web-"), "components.0.routes.0", "not a plain hostname"),
        (
            Service(
                (
                    *service(HTTP).components,
                    *service(replace(HTTP, hostname=f"web.shop.{ZONE}"), component="b").components,
                )
            ),
            "components.1.routes.0.hostname",
            'already belongs to component "web"',
        ),
    ],
)
def test_what_could_not_be_served_is_told_with_its_place(declared: Service, at: str, what: str) -> None:
    """M-24, M-13, I-17: with the place in the file, and for the hub the same reason."""
    found = one("shop", declared)
    assert found[0] == at and what in found[1]


def test_several_routes_of_a_component_may_stand_beside_each_other() -> None:
    fine = service(HTTP, Route("grpc", 9443, "l4"), Route("db", 5432, "l4"), Route("metrics", 9100))
    assert list(complaints("shop", fine, SETTINGS)) == []
    assert f"metrics.web.shop.{ZONE}" in reach("shop", fine, SETTINGS).names


def test_a_service_called_nodes_has_no_routes() -> None:
    """Its names would be those of the nodes themselves."""
    assert "reserved for nodes" in one("nodes", service(HTTP))[1]
    assert list(complaints("nodes", Service((Component("web", digest_pinned("x")),)), SETTINGS)) == []


def test_a_port_that_no_route_leads_to_is_warned_about_and_never_set_by_us_m05() -> None:
    """M-05: what a service is told about its port is honoured as it stands."""
    fleet = edge_fleet({"shop": service(HTTP, env={"PORT": "9090"}), "api": service(HTTP, env={"PORT": "8080"})})
    (warning,) = plan(fleet, None).warnings
    assert "service.shop: component web has PORT=9090 in its environment, but no route uses that port (8080)" in warning
    assert b'"PORT":"9090"' in documents(fleet)["service.shop"]


def test_a_check_that_speaks_another_protocol_than_a_route_of_its_port_is_warned_about_n113() -> None:
    """Such a service was deployed and called live, and every caller got 502."""
    web = Health("http", path="/health", port=8080)
    services = {
        "both": service(Route("http", 8080, protocol="h2c"), health=web),
        "calls": service(HTTP, health=Health("grpc", port=8080)),
        "fine": service(HTTP, Route("rpc", 9000, protocol="h2c"), health=web),
        "good": service(Route("rpc", 8080, protocol="h2c"), health=Health("grpc", port=8080)),
        "passed": service(Route("tls", 8080, mode="l4"), health=web),
    }
    warned = plan(edge_fleet(services), None).warnings
    assert [text.split(":")[0] for text in warned] == ["service.both", "service.calls"], warned
    assert "route http speaks HTTP/2 without TLS to port 8080, and the health check HTTP/1.1" in warned[0]
    assert "speaks HTTP/1.1 to port 8080, and the health check gRPC" in warned[1] and 'protocol = "h2c"' in warned[1]


# ---- the hub asks again ---------------------------------------------------------------------------------------------


BASE = settled(edge_fleet({"shop": public_service("shop"), "api": small_service("api")}, edges=("e1",)))


def rejudged(fleet: Fleet, change: Callable[[Table], Table] = lambda table: table) -> Any:
    applied = applied_at(BASE)
    found = plan(fleet, applied, Inputs(identities=joined(fleet)))
    assert found.candidate is not None
    table = change(msgspec.json.decode(found.candidate.table, type=Table))
    contents = {**dict(applied.contents), **found.candidate.blobs}
    return judge(applied.table, table, contents, contents, applied.head.number + 1)


def entry(table: Table, at: str, **fields: Any) -> Table:
    return replace(table, entries={**table.entries, at: replace(table.entries[at], **fields)})


def with_route(table: Table, **fields: Any) -> Table:
    route = replace(table.entries["service.shop"].public["shop.example.test"], **fields)
    return entry(table, "service.shop", public={"shop.example.test": route})


def pinned(table: Table, **fields: Any) -> Table:
    known = table.entries["node.w1"].identity
    assert known is not UNSET
    return entry(table, "node.w1", identity=replace(known, **fields))


EDITED = edge_fleet(
    {"shop": replace(public_service("shop"), protect=True), "api": replace(small_service("api"), protect=True)},
    edges=("e1",),
)


def test_an_honest_step_is_accepted() -> None:
    assert [change.address for change in rejudged(EDITED).changes] == ["service.api", "service.shop"]


DISHONEST: dict[str, Callable[[Table], Table]] = {
    "a name more": lambda t: entry(t, "service.api", names=("main.api.svc.test", "x.svc.test")),
    "a name less": lambda t: entry(t, "service.api", names=()),
    "a name of somebody else": lambda t: entry(t, "service.api", names=("main.shop.svc.test",)),
    "a hidden public route": lambda t: entry(
        t, "service.api", public={"api.example.test": PublicRoute("main", "http", "e1", "main.api.svc.test")}
    ),
    "a public route that is not there": lambda t: entry(t, "service.shop", public={}, hostnames=()),
    "another hostname": lambda t: entry(
        t,
        "service.shop",
        hostnames=("www.example.test",),
        public={"www.example.test": t.entries["service.shop"].public["shop.example.test"]},
    ),
    "another backend": lambda t: with_route(t, backend="main.api.svc.test"),
    "another listener": lambda t: with_route(t, listener=9443),
    "another mode": lambda t: with_route(t, mode="l4"),
    "another component": lambda t: with_route(t, component="other"),
    "a worker as edge": lambda t: with_route(t, edge="w1"),
    "nobody as edge": lambda t: with_route(t, edge=""),
    "an unknown edge": lambda t: with_route(t, edge="e9"),
    "an address outside the overlay": lambda t: entry(t, "node.w1", address="10.0.0.1"),
    "an address that is none": lambda t: entry(t, "node.w1", address="w1"),
    "another address than declared": lambda t: entry(t, "node.w1", address="100.64.0.99"),
    "the address of another node": lambda t: entry(t, "node.w1", address="100.64.0.1"),
    "a worker that answers the internet": lambda t: entry(t, "node.w1", proxy="public"),
    "a node without its proxy": lambda t: entry(t, "node.w1", proxy="none"),
    "a proxy nobody speaks of": lambda t: entry(t, "node.w1", proxy=""),
    "a name server that is none": lambda t: entry(t, "node.w1", dns=False),
    "another certificate than its pin": lambda t: pinned(t, certificate=b"of somebody else"),
    "a certificate without a pin": lambda t: pinned(t, issuer=""),
    "a node with names": lambda t: entry(t, "node.w1", names=("w1.svc.test",)),
    "a service with an address": lambda t: entry(t, "service.api", address="100.64.0.7"),
    "a service with a proxy": lambda t: entry(t, "service.api", proxy="internal"),
    "a fleet with an address": lambda t: entry(t, "fleet", address="100.64.0.7"),
}


@pytest.mark.parametrize("lie", DISHONEST)
def test_the_hub_accepts_nothing_that_the_command_line_would_not_write_m59(lie: str) -> None:
    """M-59, I-16, I-17: names, routes, addresses and proxies follow from content and settings, whoever signs."""
    with pytest.raises(HoldfastError, match="not valid"):
        rejudged(EDITED, DISHONEST[lie])


def changed(**settings: Any) -> Fleet:
    return replace(EDITED, settings=replace(EDITED.settings, **settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"internal_zone": "new.test"},
        {"public_domains": ("example.org",)},
        {"overlay_cidr": "100.64.0.0/31"},
        {"overlay_cidr": "nonsense"},
    ],
)
def test_other_settings_are_judged_with_everything_that_they_would_leave_wrong(settings: dict[str, Any]) -> None:
    """Nothing of a service or a node changed; what is recorded of them would still be that of the old settings."""
    applied = applied_at(BASE)
    text = documents(changed(**settings))["fleet"]
    table = entry(applied.table, "fleet", digest=canonical.digest(text))
    contents = {**dict(applied.contents), canonical.digest(text): text}
    with pytest.raises(HoldfastError, match="not valid"):
        judge(applied.table, table, contents, contents, applied.head.number + 1)


def founded(hostname: str) -> Any:
    """Judged: a first revision whose one service claims this hostname, put together by hand as a stranger would."""
    right = "www.example.com"
    fleet = edge_fleet({"shop": service(Route("http", 80, hostname=right, public=True))})
    found = plan(replace(fleet, settings=SETTINGS), None)
    assert found.candidate is not None
    table = msgspec.json.decode(found.candidate.table, type=Table)
    shop = table.entries["service.shop"]
    text = found.candidate.blobs[shop.digest].replace(canonical.encode(right), canonical.encode(hostname))
    public = {hostname: shop.public[right]}
    forged = entry(table, "service.shop", digest=canonical.digest(text), hostnames=(hostname,), public=public)
    return judge(Table({}), forged, {}, {**found.candidate.blobs, canonical.digest(text): text}, 1)


@pytest.mark.parametrize("hostname", WRONG)
def test_the_hub_accepts_none_of_the_wrong_hostnames_s09(hostname: str) -> None:
    """S09, M-24: whoever signs a revision with one, it is refused."""
    with pytest.raises(HoldfastError, match="not valid"):
        founded(hostname)


def test_the_hub_would_have_accepted_the_right_one() -> None:
    """S09."""
    assert founded("shop.example.com").grade == "destroy"


def test_the_bytes_behind_a_pin_need_no_grade_and_a_new_pin_does() -> None:
    fleet = edge_fleet()
    hub = mailbox()
    commit(hub, fleet)
    pins = {name: replace(one, certificate=b"") for name, one in joined(fleet).items()}
    pinning = plan(fleet, hub.applied(), Inputs(identities=pins))
    assert pinning.grade == "destroy"
    hub.commit(signed(pinning))
    filling = plan(fleet, hub.applied(), Inputs(identities=joined(fleet)))
    assert filling.grade == "apply" and "the bytes of the pinned certificate" in filling.changes[0].why
    other = {name: replace(one, issuer=canonical.digest(b"x"), certificate=b"x") for name, one in joined(fleet).items()}
    assert plan(fleet, hub.applied(), Inputs(identities=other)).grade == "destroy"


def test_another_zone_is_announced_where_something_is_public() -> None:
    """Edges go by the authorities that are recorded; nodes make others for another zone, and only an apply after that
    records them."""
    fleet = edge_fleet({"shop": public_service("shop")})
    hub = settled(fleet)
    renamed = replace(fleet, settings=replace(fleet.settings, internal_zone="other.test"))
    assert any("internal_zone changes" in warning for warning in plan(renamed, hub.applied()).warnings)
    assert not any("internal_zone changes" in warning for warning in plan(fleet, hub.applied()).warnings)


def test_a_node_does_not_get_the_address_of_one_that_is_silent_c25() -> None:
    """A machine that was broken into would else be led what is meant for a colleague that is off."""
    fleet = {name: Node(name, ("worker",)) for name in ("a1", "b1")}
    had = Table({f"node.{n}": Entry("0" * 64, address=a) for n, a in (("a1", "100.64.0.1"), ("b1", "100.64.0.2"))})
    found = overlay.addresses(fleet, had, {"a1": "100.64.0.2"}, "100.64.0.0/10")
    assert found == {"a1": "100.64.0.1", "b1": "100.64.0.2"}
    swapped = overlay.addresses(fleet, had, {"a1": "100.64.0.2", "b1": "100.64.0.3"}, "100.64.0.0/10")
    assert swapped == {"a1": "100.64.0.2", "b1": "100.64.0.3"}, "it left the address itself"
