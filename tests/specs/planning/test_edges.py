"""Which edge answers for which hostname, and what no edge may serve."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.errors import Conflict, Invalid
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model.fleet import Fleet, Node, Settings
from holdfast.model.manifest import NodeManifest
from holdfast.model.move import Move
from holdfast.model.revision import Entry, Table
from holdfast.model.route import EdgeRoute, Place, PublicRoute
from holdfast.planning.drain import plan_drain
from holdfast.planning.edges import backend_complaint, hostname_complaint, internal_complaint
from holdfast.planning.explain import explain
from holdfast.planning.manifests import compile_manifests
from holdfast.planning.plan import Inputs, plan
from tests.fleets.build import commit, edge_fleet, joined, mailbox, public_service, signed, small_service
from tests.fleets.hostnames import PUBLIC_DOMAIN, WRONG, ZONE

SETTINGS = Settings("lab", internal_zone=ZONE, public_domains=(PUBLIC_DOMAIN,))


# ---- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hostname", WRONG)
def test_an_edge_answers_for_none_of_the_wrong_hostnames_s09(hostname: str) -> None:
    """S09, M-24, I-17: the very check that command line, hub and edge make."""
    assert hostname_complaint(hostname, SETTINGS)


def test_there_are_at_least_forty_of_them() -> None:
    """S09."""
    assert len(set(WRONG)) >= 40


@pytest.mark.parametrize("hostname", ["example.com", "www.example.com", "a.b.example.com", "1.example.com"])
def test_a_domain_and_what_lies_below_it_label_by_label_is_fine_m24(hostname: str) -> None:
    """M-24: it equals an allowed domain, or ends with a dot and an allowed domain."""
    assert hostname_complaint(hostname, SETTINGS) is None


@given(st.text("abx-.", max_size=12))
def test_whatever_is_put_before_a_domain_only_a_dot_makes_it_a_part_of_it_m24(before: str) -> None:
    """M-24, S09."""
    accepted = hostname_complaint(before + PUBLIC_DOMAIN, SETTINGS) is None
    assert not accepted or before == "" or before.endswith(".")


def test_without_public_domains_nothing_is_public() -> None:
    assert "there are none" in (hostname_complaint("www.example.com", Settings("lab")) or "")


@pytest.mark.parametrize(
    "name", ["svc.example.com", "x.nodes.svc.example.com", "a.xsvc.example.com", "A.svc.example.com"]
)
def test_an_internal_name_lies_below_the_zone_and_is_nobodys_own(name: str) -> None:
    assert internal_complaint(name, SETTINGS)
    assert internal_complaint("main.shop.svc.example.com", SETTINGS) is None


ROUTE = EdgeRoute("shop", "main", "http", "w1", "100.64.0.2", "main.shop.svc.example.com", 1)


def test_a_backend_in_the_overlay_under_an_internal_name_is_fine_m25() -> None:
    assert backend_complaint(ROUTE, SETTINGS) is None
    assert backend_complaint(replace(ROUTE, port=9443, others=(Place("w2", "100.127.255.254"),)), SETTINGS) is None


@pytest.mark.parametrize(
    "backend",
    [
        "",
        "svc.example.com",
        "main.shop.xsvc.example.com",
        "main.shop.example.com",
        "evil.test",
        "w1.nodes.svc.example.com",
    ],
)
def test_a_backend_of_another_name_is_refused_m25(backend: str) -> None:
    """M-25, S09: the label match that public names have, too."""
    assert backend_complaint(replace(ROUTE, backend=backend), SETTINGS)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "100.63.255.255",
        "100.128.0.0",
        "127.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "8.8.8.8",
        "::1",
        "::ffff:100.64.0.2",
        "fe80::1%eth0",
        "100.64.0.2:443",
        "100.64.0.02",
        "100.64.0.2.",
        " 100.64.0.2",
        "1681915906",
        "0x64400002",
        "w1",
        "main.shop.svc.example.com",
    ],
)
def test_a_backend_elsewhere_is_refused_whether_it_is_the_first_choice_or_a_further_one_m25_c25(address: str) -> None:
    """M-25, C-25, S09: only a literal address of the overlay in its one spelling; no name is looked up."""
    assert backend_complaint(replace(ROUTE, address=address), SETTINGS)
    assert backend_complaint(replace(ROUTE, others=(Place("w2", address),)), SETTINGS)


@pytest.mark.parametrize("port", [0, 22, 80, 8080, 9444])
def test_a_backend_is_a_proxy_of_ours_and_nothing_else_m48(port: int) -> None:
    """M-48: there is no way to say «without TLS»; a route leads to a listener that speaks it."""
    assert backend_complaint(replace(ROUTE, port=port), SETTINGS)


# ---- the choice -----------------------------------------------------------------------------------------------------


def edges_of(hub: Revisions) -> dict[str, str]:
    applied = hub.applied()
    assert applied is not None
    return {name: route.edge for entry in applied.table.entries.values() for name, route in entry.public.items()}


def applied_with(*services: str, edges: tuple[str, ...] = ("e1", "e2")) -> Revisions:
    hub = mailbox()
    commit(hub, edge_fleet(services, edges=edges))
    return hub


def test_the_edge_with_the_fewest_routes_is_chosen_and_ties_are_broken_by_name_m146() -> None:
    """M-146, I-22."""
    hub = applied_with("a", "b", "c")
    assert edges_of(hub) == {"a.example.test": "e1", "b.example.test": "e2", "c.example.test": "e1"}


def test_an_edge_keeps_its_hostname_whoever_else_comes_or_goes_m146() -> None:
    """M-146, M-80: public records are made by hand, so a hostname moves only if its edge is one no longer."""
    hub = applied_with("a", "b")
    commit(hub, edge_fleet(("a", "b", "c"), edges=("a1", "e1", "e2")))
    assert edges_of(hub) == {"a.example.test": "e1", "b.example.test": "e2", "c.example.test": "a1"}
    moved = plan(edge_fleet(("a", "b", "c"), edges=("a1", "e2")), hub.applied())
    why = {change.address: change.why for change in moved.changes}
    assert "a.example.test moves from e1 to a1" in why["service.a"]
    assert "service.b" not in why


def test_a_hostname_that_goes_to_another_service_stays_on_its_edge() -> None:
    hub = applied_with("a", "b")
    fleet = edge_fleet({"a": small_service("a"), "b": public_service("b"), "z": public_service("z", "a.example.test")})
    commit(hub, replace(fleet, nodes=edge_fleet(edges=("e1", "e2")).nodes))
    assert edges_of(hub)["a.example.test"] == "e1"


def test_a_drained_edge_takes_no_new_hostname_and_keeps_those_it_has_m146() -> None:
    hub = applied_with("a", edges=("e1",))
    applied = hub.applied()
    assert applied is not None
    drained = plan_drain("e1", applied, {})
    assert "a.example.test stays on e1: its public DNS record points there" in drained.warnings
    hub.commit(signed(drained))
    with pytest.raises(Invalid, match="e1 is drained") as refused:
        plan(edge_fleet(("a", "b"), edges=("e1",)), hub.applied())
    assert refused.value.code == "no_edge"
    commit(hub, edge_fleet(("a", "b"), edges=("e1", "e2")))
    assert edges_of(hub) == {"a.example.test": "e1", "b.example.test": "e2"}


def test_a_public_service_without_any_edge_is_refused_with_what_helps() -> None:
    with pytest.raises(Invalid, match="no node has the role edge") as refused:
        plan(edge_fleet(edges=()), None)
    assert "roles" in refused.value.remedy and "public = false" in refused.value.remedy
    resting = edge_fleet({"shop": replace(public_service("shop"), active=False)}, edges=())
    assert plan(resting, None).candidate is not None


def test_the_choice_is_explained_m146() -> None:
    """M-146: the edge, its reason, and every other edge with why not."""
    chosen, others = explain(edge_fleet(("a", "b"), edges=("e1", "e2")), None, Inputs(), "service.b")
    assert "b.example.test → e2: fewest public routes (0, next is e1 with 1)" in chosen
    assert "e1 for b.example.test: was not chosen (has 1 public routes in this plan)" in others


def test_a_plan_says_what_becomes_public_and_what_is_so_no_more_m02() -> None:
    """M-02: one flag, seen in the plan; taking it back is an update and no removal."""
    hub = mailbox()
    private = edge_fleet({"shop": small_service("shop")})
    commit(hub, private)
    opened = plan(edge_fleet({"shop": public_service("shop")}), hub.applied())
    assert "shop.example.test becomes public on e1" in opened.changes[0].why
    assert opened.changes[0].blast.nodes == ("e1", "w1")
    assert "public shop.example.test" in {field.path for field in opened.changes[0].fields}
    assert opened.nodes_touched == ("e1", "w1")
    hub.commit(signed(opened))
    closed = plan(private, hub.applied())
    assert "shop.example.test is no longer public" in closed.changes[0].why
    assert closed.removals == () and closed.grade == "apply"


# ---- one service alone ----------------------------------------------------------------------------------------------


def half_recorded(fleet: Fleet) -> Revisions:
    """As an older release left it: pins, but no certificates, and nothing about proxies."""
    hub = mailbox()
    commit(hub, fleet)
    known = {name: replace(one, certificate=b"") for name, one in joined(fleet).items()}
    hub.commit(signed(plan(fleet, hub.applied(), Inputs(identities=known))))
    return hub


def test_deploying_one_service_takes_along_what_is_known_of_its_nodes() -> None:
    fleet = edge_fleet({"shop": small_service("shop"), "blog": small_service("blog")})
    hub = half_recorded(fleet)
    edited = edge_fleet({"shop": public_service("shop"), "blog": public_service("blog")})
    found = plan(edited, hub.applied(), Inputs(identities=joined(fleet), only="service.shop"))
    assert [change.address for change in found.changes] == ["node.e1", "node.w2", "service.shop"]
    assert found.grade == "apply" and found.warnings == ()
    hub.commit(signed(found))
    private = plan(
        replace(fleet, services={"blog": small_service("blog", 2)}), hub.applied(), Inputs(only="service.blog")
    )
    assert [change.address for change in private.changes] == ["service.blog"]


def test_a_pin_that_only_a_higher_grade_records_is_warned_about_instead() -> None:
    fleet = edge_fleet({"shop": small_service("shop")})
    hub = mailbox()
    commit(hub, fleet)
    keys = {name: replace(one, issuer="", certificate=b"") for name, one in joined(fleet).items()}
    hub.commit(signed(plan(fleet, hub.applied(), Inputs(identities=keys))))
    inputs = Inputs(identities=joined(fleet), only="service.shop")
    found = plan(edge_fleet({"shop": public_service("shop")}), hub.applied(), inputs)
    assert [change.address for change in found.changes] == ["service.shop"]
    assert "the certificate it issues from" in found.warnings[0] and "holdfast apply" in found.warnings[0]


def test_one_service_alone_brings_no_edge_along_that_is_not_applied() -> None:
    hub = mailbox()
    commit(hub, edge_fleet({"shop": small_service("shop")}, edges=()))
    with pytest.raises(Conflict, match="which is not applied as an edge yet") as refused:
        plan(edge_fleet(), hub.applied(), Inputs(only="service.shop"))
    assert refused.value.remedy == "holdfast apply"


# ---- public services need a proxy -----------------------------------------------------------------------------------


def test_a_public_service_is_never_placed_where_there_is_no_proxy_m48_t32() -> None:
    """M-48, T-32, C-24: the way from an edge is encrypted, and without a proxy nobody would speak TLS there."""
    fleet = edge_fleet(("a", "b"))
    nodes = fleet.nodes | {"w1": replace(fleet.nodes["w1"], proxy="none"), "w2": Node("w2", ("worker",))}
    fleet = replace(fleet, nodes=nodes, overlay=replace(fleet.overlay, encrypted=True))
    hub = mailbox()
    commit(hub, fleet)
    assert homes(hub) == {"service.a": "w2", "service.b": "w2"}
    with pytest.raises(Invalid, match="w1, which has no proxy"):
        plan(replace(fleet, services={"a": replace(public_service("a"), node="w1")}), None)
    with pytest.raises(Invalid, match="w1 has no proxy"):
        plan(replace(fleet, nodes={name: node for name, node in nodes.items() if name != "w2"}), None)


def homes(hub: Revisions) -> dict[str, str]:
    applied = hub.applied()
    assert applied is not None
    return {a: str(entry.node) for a, entry in applied.table.entries.items() if a.startswith("service.")}


def test_what_moves_takes_its_hostname_along_to_no_other_edge() -> None:
    """M-02, M-135: a redeploy or a move never breaks a public route, and the one hostname that a sign-in starts at and
    comes back to, with cookies bound to it, stays what it was."""
    hub = applied_with("a", edges=("e1", "e2"))
    before = edges_of(hub)
    fleet = edge_fleet({"a": replace(public_service("a"), node="w2")}, edges=("e1", "e2"))
    commit(hub, fleet)
    assert edges_of(hub) == before and homes(hub) == {"service.a": "w2"}


def test_a_route_of_an_entry_says_where_it_leads() -> None:
    hub = applied_with("a", edges=("e1",))
    applied = hub.applied()
    assert applied is not None
    entry: Entry = applied.table.entries["service.a"]
    assert entry.public == {"a.example.test": PublicRoute("main", "http", "e1", "main.a.svc.test")}
    assert (entry.names, entry.hostnames) == (("main.a.svc.test",), ("a.example.test",))


def test_what_reads_as_an_address_is_no_hostname_even_where_a_domain_would_allow_it_s09() -> None:
    """S09: a browser takes a name that ends in a number for an IPv4 address."""
    odd = Settings("lab", public_domains=("1", "0x7f", "0.0.1"))
    for literal in ("127.0.0.1", "10.1", "1", "a.0x7f"):
        assert "reads as an IP address" in (hostname_complaint(literal, odd) or "")


def test_an_address_with_a_zone_index_is_refused_in_any_overlay() -> None:
    """It means another machine on every other node."""
    local = replace(SETTINGS, overlay_cidr="fe80::/10")
    assert backend_complaint(replace(ROUTE, address="fe80::1"), local) is None
    assert backend_complaint(replace(ROUTE, address="fe80::1%eth0"), local)


def test_an_edge_knows_the_node_whose_copy_a_backup_took_the_place_of_w11() -> None:
    hub = applied_with("shop", edges=("e1",))
    applied = hub.applied()
    assert applied is not None
    entry, edge = applied.table.entries["service.shop"], applied.table.entries["node.e1"]
    source = applied.table.entries[f"node.{entry.node}"]

    def fenced(move: Move) -> set[str]:
        away = {"service.shop": replace(entry, node="e1", move=move)}
        addresses = {f"node.{entry.node}": replace(source, address="100.64.0.7"), "node.e1": edge}
        table = Table({**applied.table.entries, **addresses, **away})
        manifest = msgspec.json.decode(compile_manifests("f" * 64, table)["e1"], type=NodeManifest)
        return {route.fenced for route in manifest.edge.values()}

    assert fenced(Move(str(entry.node), "c" * 64)) == {"100.64.0.7"}
    assert fenced(Move(str(entry.node))) == {""}, "it serves until it has handed its data over"
