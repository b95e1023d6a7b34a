"""What a lab is going to be: who is in it, what everything is called, which addresses it takes, what a cut drops."""

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Conflict, Invalid
from holdfast.lab import (
    blueprint,
    firewall,
    fleet_file,
    roster,
    subnet,
    visitor,
    whereabouts,
)
from holdfast.lab.blueprint import Blueprint
from holdfast.lab.roster import Seat

IDS = st.binary(min_size=4, max_size=4).map(bytes.hex)


def drawn(nodes: str = roster.DEFAULT, lab_id: str = "0a1b2c3d") -> Blueprint:
    return blueprint.draw(lab_id, IPv4Network("100.64.7.0/24"), roster.parse(nodes))


# ---- --nodes ---------------------------------------------------------------------------------------------------------


def test_nodes_are_read_with_their_roles() -> None:
    assert roster.parse("hub1:hub+worker, w1:worker,e1:edge,x") == (
        Seat("hub1", ("hub", "worker")),
        Seat("w1", ("worker",)),
        Seat("e1", ("edge",)),
        Seat("x", ("worker",)),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1 to 200"),
        ("w1:worker", "a lab needs exactly one node with the role hub, not 0"),
        ("a:hub,b:hub", "a lab needs exactly one node with the role hub, not 2"),
        ("a:hub,a:worker", "two nodes have the name a"),
        ("a:hub,W1:worker", "'W1' is not a valid node name"),
        ("a:hub,b:wroker", "'wroker' is not a valid role for b"),
        ("hub:hub", "a node cannot have the name hub"),
        ("a:hub,b:worker+builder", "'b:worker+builder': not built yet: a builder builds no images"),
        (",".join(["h:hub", *(f"w{n}:worker" for n in range(200))]), "1 to 200"),
    ],
)
def test_a_wrong_roster_is_refused_with_an_example(text: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        roster.parse(text)
    assert said in refused.value.message and roster.DEFAULT in refused.value.remedy


# ---- names and addresses ---------------------------------------------------------------------------------------------


def test_names_fit_the_kernel_and_addresses_the_subnet() -> None:
    """An interface's name has at most 15 characters; the largest lab there is."""
    full = drawn(",".join(["h:hub", *(f"w{n}:worker" for n in range(199))]))
    links = [full.bridge, *(site.link for site in full.sites)]
    assert max(map(len, links)) <= 15 and len(set(links)) == 201
    addresses = [full.host_address, *(site.address for site in full.sites)]
    assert len(set(addresses)) == 201 and all(address.startswith("100.64.7.") for address in addresses)
    macs = [full.bridge_mac, *(site.mac for site in full.sites)]
    assert len(set(macs)) == 201 and all(int(mac[:2], 16) & 3 == 2 for mac in macs), "local, not multicast"


def test_a_lab_s_names_do_not_begin_like_another_lab_s() -> None:
    """`down` removes by name: hfID and hfIDnN, never a longer id of somebody else."""
    one, other = drawn(lab_id="0a1b2c3d"), drawn(lab_id="0a1b2c3e")
    assert not any(site.link.startswith(one.bridge) for site in other.sites)


def test_an_unknown_node_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Invalid) as refused:
        drawn().site("w9")
    assert refused.value.code == "unknown_node" and "hub1, w1, e1" in refused.value.remedy


@given(lab_id=IDS, taken=st.sets(st.integers(0, 20), max_size=20))
def test_a_free_subnet_is_chosen_beside_all_that_is_in_use(lab_id: str, taken: set[int]) -> None:
    """In use are some of those that the lab would look at first."""
    first, base = int(lab_id, 16), int(subnet.POOL.network_address)
    used = [IPv4Network((base + ((first + step) % subnet.COUNT << 8), 24)) for step in taken]
    chosen = subnet.choose(lab_id, [*used, IPv4Network("0.0.0.0/0"), IPv4Network("192.0.2.0/24")])
    assert chosen.prefixlen == 24 and chosen.subnet_of(subnet.POOL)
    assert not any(chosen.overlaps(network) for network in used)


def test_a_smaller_neighbour_counts_and_a_full_pool_is_said() -> None:
    first = subnet.choose("00000000", [])
    assert subnet.choose("00000000", [IPv4Network(f"{first[200]}/32")]) != first
    with pytest.raises(Conflict) as refused:
        subnet.choose("00000000", [subnet.POOL])
    assert refused.value.code == "subnet_exhausted" and "lab down" in refused.value.remedy


# ---- cuts ------------------------------------------------------------------------------------------------------------

LINKS = {"a": "hf1n0", "b": "hf1n1", "c": "hf1n2"}


def test_a_pair_is_cut_both_ways_and_only_on_the_bridge() -> None:
    text = firewall.rules("hf1", firewall.added((), "b", "a"), LINKS)
    assert 'iifname "hf1n0" oifname "hf1n1" drop' in text and 'iifname "hf1n1" oifname "hf1n0" drop' in text
    assert text.count("drop") == 2 and "hf1n2" not in text


def test_a_node_cut_from_everybody_is_cut_from_the_host_too() -> None:
    text = firewall.rules("hf1", firewall.added((), "a", ""), LINKS)
    for chain, drops in {"input": 1, "forward": 2, "output": 1}.items():
        body = text.partition(f"chain {chain} {{")[2].partition("}")[0]
        assert body.count("drop") == drops, chain


def test_cuts_add_up_once_and_healing_removes_the_table() -> None:
    cuts = firewall.added(firewall.added(firewall.added((), "a", "b"), "b", "a"), "c", "")
    assert cuts == (("a", "b"), ("c", ""))
    assert "chain" not in firewall.rules("hf1", (), LINKS) and "delete table bridge hf1" in firewall.rules(
        "hf1", (), {}
    )


# ---- fleet.toml ------------------------------------------------------------------------------------------------------

WRITTEN = """\
# Comments are advice.
[fleet]
name = "lab"
# hub = "https://hub.example.com:9555"

[trust]
apply = 1
id = "00ff"

[[operators]]
name = "operator"
key = "ssh-ed25519 AAAA"

# The machines.
[[nodes]]
name = "hub1"
roles = ["hub", "worker"]
"""


def test_the_fleet_file_keeps_trust_and_operators_and_gets_the_lab_s_nodes() -> None:
    import tomllib

    told = tomllib.loads(fleet_file.settled(WRITTEN, drawn(), "ssh-ed25519 HUB"))
    assert told["trust"] == {"apply": 1, "id": "00ff"} and told["operators"][0]["key"] == "ssh-ed25519 AAAA"
    assert told["fleet"] == {
        "name": "lab",
        "hub": "https://100.64.7.11:9555",
        "hub_key": "ssh-ed25519 HUB",
        "internal_zone": "svc.lab.test",
        "public_domains": ["example.test"],
    }
    assert [(node["name"], node["address"]) for node in told["nodes"]] == [
        ("hub1", "100.64.7.11"),
        ("w1", "100.64.7.12"),
        ("e1", "100.64.7.13"),
    ]
    assert [node.get("public_address") for node in told["nodes"]] == [None, None, "100.64.7.13"]


# ---- curl ------------------------------------------------------------------------------------------------------------


def test_a_name_leads_to_its_address_also_after_a_redirect_to_https() -> None:
    words = visitor.arguments("https://hello.example.test/x", "100.64.7.13", "/ca.pem", ["--head"])
    assert words[:6] == ["curl", "--fail", "--silent", "--show-error", "--cacert", "/ca.pem"]
    assert "hello.example.test:443:100.64.7.13" in words and "hello.example.test:80:100.64.7.13" in words
    assert words[-2:] == ["--head", "https://hello.example.test/x"]
    assert "w1:8080:100.64.7.12" in visitor.arguments("http://w1:8080/", "100.64.7.12", None, [])
    assert "--resolve" not in visitor.arguments("http://100.64.7.1:5000/v2/", None, None, [])


def test_authorities_are_needed_for_https_and_for_whoever_may_be_led_there() -> None:
    assert visitor.stays_plain("http://w1:8080/", []) and visitor.stays_plain("w1:8080/", ["--head", "-s"])
    assert not visitor.stays_plain("https://w1/", [])
    for follow in ("-L", "-sL", "--location", "--location-trusted"):
        assert not visitor.stays_plain("http://hello.example.test/", [follow])


def test_a_broken_port_is_said() -> None:
    with pytest.raises(Invalid):
        visitor.asked("http://w1:99999/")


def test_node_names_lead_to_the_node_public_ones_to_the_only_edge_and_others_nowhere() -> None:
    """M-24: label by label; what merely ends like a domain is none of ours."""
    assert whereabouts.address_of("w1", drawn()) == "100.64.7.12"
    assert whereabouts.address_of("hello.example.test", drawn()) == "100.64.7.13"
    assert whereabouts.address_of("hello.example.test", drawn("h:hub")) is None
    assert whereabouts.address_of("evilexample.test", drawn()) is None
    assert whereabouts.address_of("100.64.7.1", drawn()) is None
