"""One flag makes a service public: by every protocol people use, under one name that stays when all else moves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import ssl
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc  # type: ignore[import-untyped]
import pytest
from cryptography import x509

from tests.fleets.acme_lab import public_authority
from tests.fleets.load import h2load, trusting
from tests.fleets.traffic_scene import DOMAIN, EDGE, ZONE, TrafficScene
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

PATIENCE_S = 60
SSLYZE = Path(__file__).parents[2] / "build" / "sslyze" / "bin" / "python"
HEALTH, SERVING = "/grpc.health.v1.Health/Check", b"\x08\x01"


@pytest.fixture(scope="module")
def scene(traffic_lab: TrafficScene) -> TrafficScene:
    traffic_lab.hello("shop", "hello:1")
    traffic_lab.deploy("shop").ok()
    return traffic_lab


# ---- protocols


@pytest.mark.parametrize(("flag", "spoken"), [("--http1.1", "1.1"), ("--http2", "2")])
def test_a_public_service_answers_over_http(scene: TrafficScene, flag: str, spoken: str) -> None:
    """M-02, M-13, M-134: verified TLS, and nothing was done by hand."""
    said = scene.curl(scene.url("shop"), flag, "--write-out", "%{http_version} %{ssl_verify_result}").ok().out
    body, _, shown = said.rpartition("\n")
    assert json.loads(body)["version"] == "1" and shown == f"{spoken} 0"


def test_plain_http_leads_to_https_and_unknown_names_nowhere(scene: TrafficScene) -> None:
    """M-13: port 80 of an edge is there for challenges and for the way to https."""
    led = scene.curl(f"http://shop.{DOMAIN}/x?y=1", "--head").ok().out
    assert " 301 " in led.splitlines()[0] and f"https://shop.{DOMAIN}/x?y=1" in led, led
    assert json.loads(scene.curl(f"http://shop.{DOMAIN}/", "-L").ok().out)["version"] == "1"
    assert scene.curl(f"http://nobody.{DOMAIN}/").code == 22, "404"
    assert scene.curl(f"https://nobody.{DOMAIN}/").code in (35, 52, 56), "closed without a word"


def test_names_do_not_cross_from_one_listener_to_the_other(scene: TrafficScene) -> None:
    """I-17, M-134, M-136: the internal name is found where the service runs, and never at the edge."""
    internal = f"web.shop.{ZONE}"
    assert json.loads(scene.curl(f"https://{internal}/").ok().out)["version"] == "1"
    assert scene.asked(internal) == [scene.addresses["w1"]]
    for host, node in ((internal, EDGE), (f"shop.{DOMAIN}", "w1")):
        there = ("--connect-to", f"{host}:443:{scene.addresses[node]}:443")
        assert scene.curl(f"https://{host}/", *there).code in (35, 52, 56), f"{host} at {node}"
    crossed = scene.curl(scene.url("shop"), "--header", f"Host: {internal}")
    assert crossed.code == 22, "asked for by Host alone it is not there either"


def test_the_container_itself_is_reached_by_nobody_but_its_proxy(scene: TrafficScene) -> None:
    """M-04: published on loopback of its node."""
    (door,) = scene.doors("w1", "shop")
    assert door.startswith("127.0.0.1:"), door
    port = int(door.partition("->")[0].rpartition(":")[2])
    with pytest.raises(OSError):
        socket.create_connection((scene.addresses["w1"], port), timeout=2).close()


def test_websocket_goes_through_and_stays(scene: TrafficScene) -> None:
    """An open conversation is not cut by an update of another service."""
    scene.hello("neighbour", "hello:1")
    context = trusting(scene.trust())

    async def talk() -> None:
        async with aiohttp.ClientSession() as session:
            there = f"https://{scene.addresses[EDGE]}/ws"
            async with session.ws_connect(
                there, ssl=context, server_hostname=f"shop.{DOMAIN}", headers={"Host": f"shop.{DOMAIN}"}
            ) as link:
                for text in ("first", "x" * 40_000):
                    await link.send_str(text)
                    assert (await link.receive(PATIENCE_S)).data == text
                await asyncio.to_thread(lambda: scene.deploy("neighbour").ok())
                await link.send_str("still there")
                assert (await link.receive(PATIENCE_S)).data == "still there"
                await link.close()
                assert link.close_code == 1000

    asyncio.run(talk())


def test_grpc_goes_through_with_its_trailers(scene: TrafficScene) -> None:
    scene.greeter("greet")
    scene.deploy("greet").ok()
    host = f"greet.{DOMAIN}"
    names = (("grpc.ssl_target_name_override", host), ("grpc.default_authority", host))
    proof = grpc.ssl_channel_credentials(scene.trust().read_bytes())
    with grpc.secure_channel(f"{scene.addresses[EDGE]}:443", proof, options=names) as channel:
        assert channel.unary_unary(HEALTH)(b"", timeout=PATIENCE_S) == SERVING
        assert channel.unary_unary("/greeter.Greeter/Hello")(b"", timeout=PATIENCE_S).startswith(b"\x0a\x011\x12")
        with pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary("/greeter.Greeter/Sing")(b"", timeout=PATIENCE_S)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    call, answer = scene.room / "call", scene.room / "answer"
    call.write_bytes(bytes(5))  # a message of no length
    flags = ("--http2", "--header", "content-type: application/grpc", "--header", "te: trailers")
    files = ("--data-binary", f"@{call}", "--output", str(answer), "--dump-header", "-")
    assert "grpc-status: 0" in scene.curl(f"https://{host}{HEALTH}", *flags, *files).ok().out
    assert answer.read_bytes() == b"\x00\x00\x00\x00\x02" + SERVING


@pytest.mark.parametrize(("node", "host"), [(EDGE, f"shop.{DOMAIN}"), ("w1", f"web.shop.{ZONE}")])
def test_a_scanner_finds_no_weakness_in_a_listener(scene: TrafficScene, node: str, host: str) -> None:
    """S01: TLS 1.3, in public 1.2 as well, with ciphers that authenticate what they encrypt."""
    found = scene.room / f"scan-{node}.json"
    versions = ["--sslv2", "--sslv3", "--tlsv1", "--tlsv1_1", "--tlsv1_2", "--tlsv1_3"]
    asks = [*versions, "--heartbleed", "--reneg", "--compression", "--early_data", f"--sni={host}"]
    words = [str(SSLYZE), "-m", "sslyze", f"--json_out={found}", *asks, f"{scene.addresses[node]}:443"]
    subprocess.run(words, check=True, capture_output=True, timeout=240)
    (scan,) = json.loads(found.read_text())["server_scan_results"]
    results: dict[str, Any] = {name: part["result"] for name, part in scan["scan_result"].items() if part["result"]}

    def suites(version: str) -> set[str]:
        accepted = results[f"{version}_cipher_suites"]["accepted_cipher_suites"]
        return {str(one["cipher_suite"]["name"]) for one in accepted}

    for old in ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"):
        assert suites(old) == set(), old
    assert suites("tls_1_3") == {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
    weak = {suite for suite in suites("tls_1_2") if not suite.startswith("TLS_ECDHE_") or "_CBC_" in suite}
    assert weak == set() and bool(suites("tls_1_2")) == (node == EDGE)
    assert results["tls_1_3_early_data"]["supports_early_data"] is False
    assert results["tls_compression"]["supports_compression"] is False
    assert results["heartbleed"]["is_vulnerable_to_heartbleed"] is False
    assert results["session_renegotiation"]["is_vulnerable_to_client_renegotiation_dos"] is False


@pytest.mark.parametrize("node", [EDGE, "w1"])
def test_plaintext_is_not_answered_where_tls_is_spoken(scene: TrafficScene, node: str) -> None:
    """S01: not even with an error."""
    with socket.create_connection((scene.addresses[node], 443), timeout=PATIENCE_S) as link:
        link.sendall(f"GET / HTTP/1.1\r\nHost: shop.{DOMAIN}\r\n\r\n".encode())
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP/" not in link.recv(4096)


# ---- one name, whatever moves


def test_a_redeploy_on_another_port_keeps_the_url(scene: TrafficScene) -> None:
    """M-03, M-05: outside the port is another one each time, this time the one inside is, too. No request is lost."""
    scene.hello("port", "hello:1")
    scene.deploy("port").ok()
    before = scene.doors("w1", "port")
    with scene.visitors("port").at_work() as visitors:
        visitors.await_visits(50)
        for port, image in ((9090, "hello:2"), (8080, "hello:1")):
            scene.hello("port", image, port=port)
            scene.deploy("port").ok()
            visitors.await_answer(f'"version":"{image[-1]}"')
            after = scene.doors("w1", "port")
            assert after.isdisjoint(before) and all(f"->{port}/" in door for door in after)
            before = after
        visitors.await_visits(50)
    assert visitors.failures == []


def test_a_service_that_moves_to_another_node_keeps_its_url(scene: TrafficScene) -> None:
    """M-03, C-20, D-06: there and back again; its internal name follows it, and no request is lost."""
    internal = f"web.move.{ZONE}"
    scene.hello("move", "hello:1", node="w1")
    scene.deploy("move").ok()
    assert scene.asked(internal) == [scene.addresses["w1"]]
    with scene.visitors("move").at_work() as visitors:
        visitors.await_visits(50)
        for node, image in (("hub1", "hello:2"), ("w1", "hello:1")):
            scene.hello("move", image, node=node)
            scene.run("apply", "--yes").ok()
            visitors.await_answer(f'"version":"{image[-1]}"')
            for asked in ("hub1", "w1", EDGE):
                wait_until(partial(moved, scene, internal, asked, node), f"{asked} knows where it is")
            visitors.await_visits(50)
    assert visitors.failures == []
    assert scene.doors("w1", "move") and not scene.doors("hub1", "move")


def moved(scene: TrafficScene, name: str, asked: str, to: str) -> bool:
    return scene.asked(name, asked) == [scene.addresses[to]]


def test_updates_drop_nothing_over_http_2(scene: TrafficScene) -> None:
    """h2load keeps its connections from the first request to the last."""
    scene.hello("shop", "hello:1")
    scene.deploy("shop").ok()
    scene.hello("shop", "hello:2")
    update = scene.begin("deploy", "shop", "--yes")
    try:
        tally = h2load(scene.url("shop"), scene.addresses[EDGE], 1500, rate=300)
        assert update.wait(180) == 0
    finally:
        update.kill()
        update.wait(60)
    assert tally.failed == {} and tally.asked == 1500
    assert scene.says("shop")["version"] == "2"


# ---- a public authority


def test_a_public_authority_s_certificate_is_served_and_its_absence_is_told(scene: TrafficScene) -> None:
    """M-81, M-82, M-84, M-87: without a certificate no route; with one again, nobody has to do anything."""
    hosts = [f"paid.{DOMAIN}", f"unpaid.{DOMAIN}"]
    with public_authority(scene, hosts) as authority:
        root = scene.room / "root.pem"
        root.write_text(authority.root)
        scene.hello("paid", "hello:1")
        scene.deploy("paid").ok()
        assert shown(scene, root, hosts[0]) == [hosts[0]], "vouched for by that authority, for that name alone"
        assert scene.edge_status(hosts[0])["certificate"]["authority"] == "acme"
        authority.stop(signal.SIGKILL)
        scene.hello("unpaid", "hello:1")
        failed = scene.deploy("unpaid", "--json")
        assert failed.code == 1 and "certificate" in failed.out + failed.err, failed
        assert json.loads(scene.curl(f"https://web.unpaid.{ZONE}/").ok().out)["version"] == "1", "internally it serves"
        assert scene.curl(scene.url("unpaid")).code in (35, 52, 56), "and is not public"
        assert scene.edge_status(hosts[1])["status"] != "live"
        assert shown(scene, root, hosts[0]), "what is there stays"
        authority.start()
        wait_until(lambda: scene.edge_status(hosts[1])["status"] == "live", "it was ordered again")
        assert shown(scene, root, hosts[1]) == [hosts[1]]
        for name in ("paid", "unpaid"):
            scene.run("undeploy", name, "--yes").ok()
            scene.gone(name)


def shown(scene: TrafficScene, root: Path, host: str) -> list[str]:
    """The names of the certificate that the edge shows, if that root vouches for it."""
    with (
        socket.create_connection((scene.addresses[EDGE], 443), timeout=PATIENCE_S) as link,
        ssl.create_default_context(cafile=str(root)).wrap_socket(link, server_hostname=host) as talk,
    ):
        leaf = talk.getpeercert(binary_form=True)
    assert leaf is not None
    names = x509.load_der_x509_certificate(leaf).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.DNSName)
