"""Routes, proxies, DNS, overlay and the public authority: what may be declared, and where a mistake is shown."""

import json

import pytest
from msgspec import UNSET

from holdfast.adapters.fleet_directory.memory import Content
from holdfast.model.fleet import Acme, Dns, Overlay
from tests.fleets.hostnames import PUBLIC_DOMAIN, WRONG, ZONE
from tests.specs.declared.declared_fleets import BASE, FLEET, WEB, fleet_of, only_problem, problems_of, with_service

ACME = '[acme]\ndirectory = "https://ca.example.net/directory"\nterms_agreed = true\n'


def with_fleet(*more: str) -> dict[str, Content]:
    return {**BASE, "fleet.toml": (FLEET + "".join(more)).encode()}


def route(**keys: object) -> str:
    lines = {"name": "http", "port": 8080, **keys}
    return "[[components.routes]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())


def served(*routes: str) -> dict[str, Content]:
    return with_service(WEB + "".join(routes))


# ---- the tables of fleet.toml ---------------------------------------------------------------------------------------


def test_authority_dns_and_overlay_are_declared_and_reach_the_fleet() -> None:
    text = ACME + 'contact = ["mailto:ops@example.test"]\n[dns]\nnodes = ["hub1"]\nupstream = ["9.9.9.9", "fd00::53"]\n'
    fleet = fleet_of(with_fleet(text, "[overlay]\nencrypted = true\n"))
    assert fleet.acme == Acme("https://ca.example.net/directory", ("mailto:ops@example.test",), True)
    assert fleet.dns == Dns("dnsmasq", ("hub1",), ("9.9.9.9", "fd00::53"))
    assert fleet.overlay == Overlay(encrypted=True)
    plain = fleet_of(BASE)
    assert (plain.acme, plain.dns, plain.overlay) == (UNSET, Dns(), Overlay())


PEM = "-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----\\n"


def test_the_authoritys_own_certificate_is_written_as_text() -> None:
    fleet = fleet_of(with_fleet(ACME, f'ca = "{PEM}"\n'))
    assert fleet.acme is not UNSET and fleet.acme.ca.startswith("-----BEGIN")


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [
        (ACME.replace("https", "http"), "acme.directory", "https://"),
        (ACME.replace("true", "false"), "acme.terms_agreed", "before you agree to its terms"),
        (ACME + 'ca = "/etc/ca.pem"\n', "acme.ca", "not the PEM text"),
        (
            ACME + 'contact = ["ops@example.test"]\n',
            "acme.contact[0]",
            "not a contact address that the authority can use",
        ),
        (ACME + 'domains = ["a.example.test", "example.org"]\n', "acme.domains[1]", "not within public_domains"),
        ('[dns]\nnodes = ["hub1", "hub2"]\n', "dns.nodes[1]", 'there is no node "hub2"'),
        ('[dns]\nupstream = ["9.9.9.9", "dns.example"]\n', "dns.upstream[1]", "is not an IP address"),
        ('[dns]\ndriver = "none"\nnodes = ["hub1"]\n', "dns.nodes", "turns DNS off"),
        ('[dns]\ndriver = "bind"\n', "dns.driver", 'must be "dnsmasq" or "none"'),
        ('[overlay]\ndriver = "wireguard"\n', "overlay.driver", "not built yet"),
        ('[overlay]\ndriver = "tailscale"\n', "overlay.driver", 'must be "external"'),
    ],
)
def test_a_mistake_there_is_shown_with_its_key_and_line_c25(text: str, key: str, what: str) -> None:
    """C-25, C-20."""
    found = only_problem(with_fleet(text))
    line = text[: text.index(key.rpartition(".")[2].partition("[")[0] + " =")].count("\n") + 1
    assert found[:3] == ("fleet.toml", FLEET.count("\n") + line, key) and what in found[3]
    assert found[4] or "must be" in found[3]


def node(*lines: str, name: str = "n1", roles: str = '["worker"]') -> str:
    return f'[[nodes]]\nname = "{name}"\nroles = {roles}\n' + "".join(f"{line}\n" for line in lines)


ENCRYPTED = "[overlay]\nencrypted = true\n"


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [
        (node('address = "10.0.0.1"'), "nodes[2].address", "10.0.0.1 is outside the overlay network 100.64.0.0/10"),
        (node('address = "100.64.0.1:443"'), "nodes[2].address", "is not an IP address"),
        (node('address = "fe80::1%eth0"'), "nodes[2].address", "is not an IP address"),
        (node('proxy = "none"'), "nodes[2].proxy", "unencrypted"),
        (node('proxy = "public"'), "nodes[2].proxy", "needs the role edge"),
        (node('proxy = "internal"', roles='["edge"]'), "nodes[2].proxy", "not be reachable from the internet"),
        (node('proxy = "none"', roles='["edge", "worker"]') + ENCRYPTED, "nodes[2].proxy", "not be reachable"),
        (node('public_address = "e1.example.test"', roles='["edge"]'), "nodes[2].public_address", "not an IP address"),
    ],
)
def test_a_node_stands_in_the_overlay_and_has_the_proxy_of_its_role_c24_c25(text: str, key: str, what: str) -> None:
    """C-24, C-25."""
    found = only_problem(with_fleet(text))
    assert found[:3] == ("fleet.toml", FLEET.count("\n") + 4, key) and what in found[3]


def test_a_node_does_without_a_proxy_where_the_network_encrypts_c24_t32() -> None:
    """C-24, T-32."""
    assert fleet_of(with_fleet(node('proxy = "none"'), ENCRYPTED)).nodes["n1"].proxy == "none"


def test_an_edge_needs_a_domain_it_may_answer_for() -> None:
    text = FLEET.replace('public_domains = ["example.test"]\n', "\n")
    found = only_problem({**BASE, "fleet.toml": text.encode()})
    assert found[2] == "nodes[1].roles" and "no domain that an edge may serve" in found[3]


def test_a_public_service_is_not_pinned_to_a_node_without_a_proxy_m48() -> None:
    """M-48: no backend without TLS."""
    fleet = with_fleet(node('proxy = "none"'), ENCRYPTED)
    for line, key in (('node = "n1"\n', "node"), ('failover = ["n1"]\n', "failover[0]")):
        found = only_problem({**fleet, "services/web.toml": (line + WEB + route(public=True)).encode()})
        assert found[:3] == ("services/web.toml", 1, key) and "over TLS only" in found[3]
        assert fleet_of({**fleet, "services/web.toml": (line + WEB + route()).encode()})


# ---- routes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hostname", WRONG)
def test_none_of_the_wrong_hostnames_can_be_declared_s09(hostname: str) -> None:
    """S09, M-24, I-17."""
    text = FLEET.replace('["example.test"]', f'["{PUBLIC_DOMAIN}"]\ninternal_zone = "{ZONE}"')
    files: dict[str, Content] = {**BASE, "fleet.toml": text.encode()}
    found = problems_of(
        {**files, "services/web.toml": (WEB + route(public=True, hostname=hostname)).encode("utf-8", "surrogatepass")}
    )
    assert {problem.file for problem in found} == {"services/web.toml"}
    assert fleet_of({**files, "services/web.toml": (WEB + route(public=True, hostname="www.example.com")).encode()})


@pytest.mark.parametrize(
    ("routes", "at", "what"),
    [
        ((route(hostname="www.example.test"),), "routes[0].hostname", "not within the internal zone holdfast.internal"),
        ((route(public=True, hostname="www.example.org"),), "routes[0].hostname", "public_domains (example.test)"),
        ((route(mode="l4", protocol="h2c"),), "routes[0].protocol", "passes bytes through unread"),
        ((route(), route(name="raw", port=443, mode="l4")), "routes[1]", "both listen on port 443"),
        ((route(mode="l4"), route(name="raw", port=25, mode="l4")), "routes[1]", "both listen on port 8443"),
    ],
)
def test_a_route_that_could_not_be_served_is_a_mistake_with_its_line(
    routes: tuple[str, ...], at: str, what: str
) -> None:
    """M-13, M-24, I-17."""
    found = only_problem(served(*routes))
    assert found[2] == f"components[0].{at}" and what in found[3] and found[4]


def test_two_services_never_have_one_name_whether_it_is_declared_or_derived_i17() -> None:
    """A declared internal hostname may not be the name that another service has by itself."""
    taken = served(route())
    other = (WEB + route(hostname="web.web.holdfast.internal")).encode()
    found = only_problem({**taken, "services/api.toml": other})
    assert found[0] == "services/web.toml" and 'both claim "web.web.holdfast.internal"' in found[3]
    derived = (WEB + route(public=True, hostname="web.example.test")).encode()
    found = only_problem({**served(route(public=True)), "services/api.toml": derived})
    assert found[0] == "services/web.toml" and 'both claim "web.example.test"' in found[3]


def test_a_service_named_like_the_nodes_own_names_has_no_route() -> None:
    found = only_problem({**BASE, "services/nodes.toml": (WEB + route()).encode()})
    assert found[0] == "services/nodes.toml" and "reserved for nodes" in found[3]
    assert fleet_of({**BASE, "services/nodes.toml": WEB.encode()})


def test_a_grpc_server_is_declared_with_what_it_speaks() -> None:
    fleet = fleet_of(served(route(protocol="h2c", public=True)))
    assert fleet.services["web"].components[0].routes[0].protocol == "h2c"
