"""TLS that belongs to a service is passed through by its name, and several edges share the names (issue 5).

The service is Caddy with a certificate of its own: that one must be what a client sees, whichever way it comes.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.adapters.certificates import issuer
from holdfast.model.certificate import Constraints
from tests.fleets.lasting import Conversations, Lasting, Multiplexed
from tests.fleets.load import Visitors, h2load, trusting
from tests.fleets.traffic_scene import DOMAIN, ZONE, TrafficScene, traffic_scene
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

EDGES = ("e1", "e2")
NODES = "hub1:hub+worker,w1:worker,e1:edge,e2:edge"
WORKER = "w1"
VAULT, STREAM, INTERNAL = f"vault.{DOMAIN}", f"stream.{DOMAIN}", f"web.vault.{ZONE}"
LISTENERS = (443, 8443, 9443)
PATIENCE_S = 60

CONTAINERFILE = """ARG REGISTRY
FROM $REGISTRY/hello:1
COPY caddy /bin/caddy
COPY caddy.json server.pem server.key /srv/
ENTRYPOINT ["/bin/caddy", "run", "--config", "/srv/caddy.json"]
"""


class Vault(NamedTuple):
    """What the container shows, and who vouches for it: nobody of the fleet."""

    leaf: str
    authority: Path


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrafficScene]:
    with traffic_scene(tmp_path_factory.mktemp("l4"), nodes=NODES) as made:
        yield made


@pytest.fixture(scope="module")
def vault(scene: TrafficScene) -> Vault:
    """One container, three ports, each of which is a listener of the proxy; two of the routes are public."""
    folder = scene.room / "caddy"
    folder.mkdir()
    os.link(Path(sys.executable).with_name("caddy").resolve(), folder / "caddy")
    found = make_certificate(folder)
    (folder / "caddy.json").write_text(json.dumps(settings()))
    (folder / "Containerfile").write_text(CONTAINERFILE)
    scene.made.lab("image", "build", str(folder), "--name", "caddy:1").ok()
    lines = [f'node = "{WORKER}"', "[[components]]", 'name = "web"', f'image = "{scene.registry}/caddy:1"']
    lines += ['health = { type = "tcp", port = 443 }']
    for name, port, public in (("tls", 443, ""), ("api", 8443, VAULT), ("stream", 9443, STREAM)):
        lines += ["[[components.routes]]", f'name = "{name}"', f"port = {port}", 'mode = "l4"']
        lines += ["public = true", f'hostname = "{public}"'] if public else []
    scene.write("vault", "\n".join(lines) + "\n")
    scene.deploy("vault").ok()
    return found


def make_certificate(folder: Path) -> Vault:
    private = issuer.make_key()
    authority = issuer.make_issuer(private, "vault", Constraints((DOMAIN, ZONE)), time.time())
    issued = issuer.issue(authority, private, (VAULT, STREAM, INTERNAL), time.time())
    (folder / "server.pem").write_bytes(issued.chain)
    (folder / "server.key").write_bytes(issued.private)
    (folder / "authority.pem").write_bytes(authority)
    return Vault(issued.facts.digest, folder / "authority.pem")


def settings() -> dict[str, object]:
    """Its answer says what it was asked for, in which protocol, and on which port of its own."""
    said = "{http.request.host} {http.request.proto} {http.request.local.port}"
    server = {
        "listen": [f":{port}" for port in LISTENERS],
        "tls_connection_policies": [{}],
        "automatic_https": {"disable": True},
        "routes": [{"handle": [{"handler": "static_response", "body": said}]}],
    }
    files = {"load_files": [{"certificate": "/srv/server.pem", "key": "/srv/server.key"}]}
    apps = {"http": {"servers": {"vault": server}}, "tls": {"certificates": files}}
    return {"admin": {"disabled": True}, "apps": apps}


class Seen(NamedTuple):
    leaf: str
    protocol: str | None
    said: str


def asked(address: str, port: int, host: str, authority: Path, protocol: str = "http/1.1") -> Seen | None:
    """One client, who believes that authority alone; None if the connection was closed before anything was shown."""
    context = trusting(authority)
    context.set_alpn_protocols([protocol])
    try:
        with (
            socket.create_connection((address, port), timeout=PATIENCE_S) as link,
            context.wrap_socket(link, server_hostname=host) as talk,
        ):
            leaf = talk.getpeercert(binary_form=True)
            assert leaf is not None
            talk.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            said = b"".join(iter(lambda: talk.recv(4096), b"")).decode()
            return Seen(sha256(leaf).hexdigest(), talk.selected_alpn_protocol(), said.rpartition("\r\n")[2])
    except (ConnectionError, ssl.SSLEOFError):
        return None


# ---- passed through


@pytest.mark.parametrize("listener", LISTENERS)
def test_an_internal_name_is_passed_through_on_the_listener_of_its_port(
    scene: TrafficScene, vault: Vault, listener: int
) -> None:
    """M-13: 443, 8443 and 9443 of the node that runs it; the certificate is the container's own."""
    seen = asked(scene.addresses[WORKER], listener, INTERNAL, vault.authority)
    assert seen == Seen(vault.leaf, "http/1.1", f"{INTERNAL} HTTP/1.1 {listener}")


@pytest.mark.parametrize(("host", "port"), [(VAULT, 8443), (STREAM, 9443)])
def test_a_public_name_is_passed_through_by_edge_and_worker(
    scene: TrafficScene, vault: Vault, host: str, port: int
) -> None:
    """M-13, M-02, I-18: always on 443 of its edge, never on the other one; neither has a certificate for it."""
    edge = edges(scene)[host]
    (other,) = set(EDGES) - {edge}
    seen = asked(scene.addresses[edge], 443, host, vault.authority)
    assert seen == Seen(vault.leaf, "http/1.1", f"{host} HTTP/1.1 {port}")
    assert asked(scene.addresses[other], 443, host, vault.authority) is None
    assert asked(scene.addresses[edge], 443, INTERNAL, vault.authority) is None, "internal names stay inside (I-17)"
    for node in (edge, WORKER):
        shelf = Path(scene.made.node(node)["dirs"]["state"]) / "agent" / "routes"
        assert not any((shelf / name).exists() for name in (host, INTERNAL)), node
    assert scene.edge_status(host)["status"] == "live"


def test_http_2_is_spoken_with_the_container_itself(scene: TrafficScene, vault: Vault) -> None:
    """M-13: what the two agree on is none of the proxies' business."""
    edge = scene.addresses[edges(scene)[VAULT]]
    tally = h2load(f"https://{VAULT}/", edge, 300, clients=2)
    assert tally.failed == {} and tally.asked == 300
    lasting: list[Lasting] = [Multiplexed(edge, VAULT, vault.authority)]
    with Conversations(lasting).at_work() as talks:
        scene.hello("neighbour", "hello:1")
        scene.deploy("neighbour").ok()
        talks.await_rounds(3)
    assert talks.cut == {}, "it outlives what is done to others"


# ---- two edges


def test_hostnames_are_spread_over_the_edges_and_stay_where_they_are(scene: TrafficScene, vault: Vault) -> None:
    """M-146: fewest routes first; who is there stays, whatever comes and goes."""
    for name in ("ant", "bee", "cow", "dog"):
        scene.hello(name, "hello:1", node="hub1")
    scene.run("apply", "--yes").ok()
    before = edges(scene)
    assert {"ant", "bee", "cow", "dog"} <= {host.partition(".")[0] for host in before}
    loads = [list(before.values()).count(edge) for edge in EDGES]
    assert abs(loads[0] - loads[1]) <= 1, before
    for host in (f"ant.{DOMAIN}", f"bee.{DOMAIN}"):
        (other,) = set(EDGES) - {before[host]}
        wait_until(partial(fetched, scene, before[host], host), f"{host} is served")
        assert not fetched(scene, other, host)
    leaving = [host for host, edge in before.items() if edge == "e2" and host[:3] in ("ant", "bee", "cow", "dog")]
    for host in leaving:
        scene.gone(host.partition(".")[0])
    scene.run("apply", "--yes", "--allow-removals", str(len(leaving))).ok()
    scene.hello("elk", "hello:1", node="hub1")
    scene.hello("fox", "hello:1", node="hub1")
    scene.run("apply", "--yes").ok()
    after = edges(scene)
    assert {after[f"elk.{DOMAIN}"], after[f"fox.{DOMAIN}"]} == {"e2"}, "where room was made"
    assert all(after[host] == edge for host, edge in before.items() if host not in leaving)


def test_an_edge_that_dies_takes_only_its_own_names_along(scene: TrafficScene, vault: Vault) -> None:
    """M-146, I-01: nobody at the other edge notices; the dead one's names come back with it."""
    placed = {edge: next(host for host, at in edges(scene).items() if at == edge and is_hello(host)) for edge in EDGES}
    safe, lost = placed["e1"], placed["e2"]
    visitors = Visitors(f"https://{safe}/", scene.addresses["e1"], scene.trust(), rate=150)
    wait_until(lambda: fetched(scene, "e1", safe) and fetched(scene, "e2", lost), "both are served")
    with visitors.at_work():
        visitors.await_visits(50)
        scene.made.lab("kill", "e2").ok()
        assert not fetched(scene, "e2", lost)
        visitors.await_visits(200)
        wait_until(lambda: statuses(scene)[lost] == "unknown", "the dead one's name is not called live")
        assert statuses(scene)[safe] == "live" and edges(scene)[lost] == "e2", "names do not wander by themselves"
        scene.made.lab("start", "e2").ok()
        wait_until(lambda: fetched(scene, "e2", lost), "it is back")
    assert visitors.failures == []


def is_hello(host: str) -> bool:
    return host not in (VAULT, STREAM)


def edges(scene: TrafficScene) -> dict[str, str]:
    return {one["hostname"]: one["edge"] for one in listed(scene) if one["status"] != "leaving"}


def statuses(scene: TrafficScene) -> dict[str, str]:
    return {one["hostname"]: one["status"] for one in listed(scene)}


def listed(scene: TrafficScene) -> list[dict[str, str]]:
    found = scene.run("edge", "list", "--json").ok().json["edges"]
    assert isinstance(found, list)
    return found


def fetched(scene: TrafficScene, edge: str, host: str) -> bool:
    try:
        seen = asked(scene.addresses[edge], 443, host, scene.trust())
    except (OSError, ssl.SSLError):
        return False
    return seen is not None and '"version"' in seen.said
