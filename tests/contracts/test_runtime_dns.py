"""Containers find internal names by the node's DNS server, and their siblings by their network's own (M-79)."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.adapters.name_server.dnsmasq import configuration, zone_file
from holdfast.adapters.runtime.podman import creation
from holdfast.adapters.runtime.podman.runtime import Podman
from holdfast.model.container import ContainerSpec, spec_digest
from holdfast.ports.name_server import Serving
from holdfast.ports.runtime import CreateContainer, Finished
from tests.fleets.doors import OpenRuntime
from tests.fleets.podman import IMAGE, ThrowAway, throw_away

ZONE = "holdfast.internal"
WEB = f"web.shop.{ZONE}"
HERE, THERE = "100.64.7.12", "100.64.7.13"
LABELS = {"holdfast.fleet": "f" * 16, "holdfast.service": "shop"}
SLEEPS = ("sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait")


def made(component: str, network: str = "", dns: tuple[str, ...] = (HERE,)) -> CreateContainer:
    spec = ContainerSpec("f" * 16, "shop", component, 1, IMAGE, "", command=SLEEPS, network=network)
    return CreateContainer(f"shop-{component}", spec, LABELS, dns=dns)


def test_a_container_is_told_whom_to_ask_unless_its_network_has_a_server_of_its_own() -> None:
    assert creation.body(made("web"), {})["dns_server"] == [HERE]
    assert "dns_server" not in creation.body(made("web", dns=()), {})
    assert "dns_server" not in creation.body(made("web", network="shop"), {})


def test_whom_it_asks_is_not_part_of_what_it_is() -> None:
    """I-23: a node whose DNS server is switched on replaces no container for it."""
    assert spec_digest(made("web").spec) == spec_digest(made("web", dns=()).spec)


# ---- podman ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node() -> Iterator[ThrowAway]:
    """A node with an address in the overlay, and a DNS server there."""
    with throw_away() as node:
        node.load_busybox()
        for words in (
            ("ip", "link", "add", "overlay0", "type", "bridge"),
            ("ip", "address", "add", f"{HERE}/32", "dev", "overlay0"),
            ("ip", "link", "set", "overlay0", "up"),
        ):
            subprocess.run([*node.inside, *words], check=True, timeout=60)
        directory = Path("/tmp") / f"holdfast-runtime-dns-{os.getpid()}-{time.monotonic_ns()}"
        directory.mkdir(mode=0o755)
        records = directory / "records"
        records.write_bytes(zone_file.written({WEB: THERE}, ZONE))
        serving = Serving(HERE, ZONE, ("127.0.0.1",))
        (directory / "dnsmasq.conf").write_bytes(configuration.text(serving, 53, str(records), "dnsmasq"))
        server = node.spawn("dnsmasq", f"--conf-file={directory}/dnsmasq.conf")
        try:
            node.await_listener(53)
            yield node
        finally:
            server.kill()
            server.wait(60)
            shutil.rmtree(directory, ignore_errors=True)


def asked(node: ThrowAway, *questions: tuple[CreateContainer, str]) -> list[Finished]:
    """What each container finds when it asks; all of them run while the questions are asked."""

    async def story() -> list[Finished]:
        podman = OpenRuntime(Podman(None, node.run_dir, environ=node.environ, command=node.command))
        try:
            ids: dict[str, str] = {}
            for one, _ in questions:
                if one.spec.network:
                    await podman.ensure_network(one.spec.network, LABELS)
                if one.name not in ids:
                    ids[one.name] = await podman.create(one)
                    await podman.start(ids[one.name])
            return [await told(podman, ids[one.name], name, bool(one.spec.network)) for one, name in questions]
        finally:
            for id in ids.values():
                await podman.stop(id, 0.0)
                await podman.remove(id)
            await podman.close()

    return asyncio.run(story())


async def told(podman: OpenRuntime, id: str, name: str, is_patient: bool) -> Finished:
    """The DNS server of a network learns of a container a moment after its start."""
    for _ in range(100):
        finished = await podman.exec(id, ("nslookup", name), 60.0)
        if finished.code == 0 or not is_patient:
            break
        await asyncio.sleep(0.2)
    return finished


@pytest.mark.lab
def test_a_container_finds_internal_names(node: ThrowAway) -> None:
    found, unknown = asked(node, (made("app"), WEB), (made("app"), f"nobody.{ZONE}"))
    assert found.code == 0 and THERE in found.output
    assert unknown.code == 1 and "NXDOMAIN" in unknown.output


@pytest.mark.lab
def test_containers_of_a_service_find_each_other(node: ThrowAway) -> None:
    """Also on a node with a DNS server: theirs must not be replaced by one that does not know them."""
    app, database = made("app", network="shop"), made("database", network="shop")
    found, back = asked(node, (app, "database"), (database, "app"))
    assert found.code == 0 and "10.89." in found.output
    assert back.code == 0 and "10.89." in back.output


@pytest.mark.lab
def test_containers_of_a_service_find_internal_names_where_the_machine_does(node: ThrowAway, tmp_path: Path) -> None:
    """podman 4.3 passes what a network's server does not know to the servers of the machine's resolv.conf, and to no
    others."""
    resolv = tmp_path / "resolv.conf"
    resolv.write_text(f"nameserver {HERE}\n")
    subprocess.run([*node.inside, "mount", "--bind", str(resolv), "/etc/resolv.conf"], check=True, timeout=60)
    try:
        app, database = made("app", network="other"), made("database", network="other")
        found, sibling = asked(node, (app, WEB), (database, "app"))
        assert found.code == 0 and THERE in found.output
        assert sibling.code == 0 and "10.89." in sibling.output
    finally:
        subprocess.run([*node.inside, "umount", "/etc/resolv.conf"], check=True, timeout=60)
