"""Which edge a public name is found at, and what the nodes' DNS is asked: real sockets on loopback, nothing else."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from dns import message, rcode, rrset

from holdfast.errors import Unreachable
from holdfast.lab import whereabouts
from holdfast.lab.blueprint import Blueprint, Site
from tests.fleets import tls_peers

EDGES = ("127.0.0.11", "127.0.0.12", "127.0.0.13")
NODES = ("127.0.0.21", "127.0.0.22")


def at(addresses: tuple[str, ...], role: str) -> Blueprint:
    sites = tuple(Site(f"n{index}", (role,), "", address, "") for index, address in enumerate(addresses))
    return Blueprint("0a1b2c3d", "127.0.0.0/24", sites)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Instead of 443 and 53, which belong to the machine."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        number = int(one.getsockname()[1])
    monkeypatch.setattr(whereabouts, "HTTPS", number)
    monkeypatch.setattr(whereabouts, "DNS", number)
    monkeypatch.setattr(whereabouts, "ASK_S_MAX", 0.3)
    return number


# ---- edges


@contextmanager
def edge(address: str, port: int, carries: str) -> Iterator[None]:
    """Shakes hands for one name and closes every other connection, as an edge does."""
    context = tls_peers.OURS.context()

    def judge(_: ssl.SSLObject | ssl.SSLSocket, name: str, __: ssl.SSLContext) -> int | None:
        return None if name == carries else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    context.sni_callback = judge

    def greet(link: socket.socket) -> None:
        with context.wrap_socket(link, server_side=True):
            pass

    with serving(socket.create_server((address, port)), greet):
        yield


@contextmanager
def serving(door: socket.socket, greet: Callable[[socket.socket], None]) -> Iterator[None]:
    def accept() -> None:
        while True:
            try:
                link, _ = door.accept()
            except OSError:  # closed
                return
            with link:
                try:
                    greet(link)
                except OSError:
                    continue

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        door.shutdown(socket.SHUT_RDWR)
        door.close()
        thread.join(5)


@pytest.mark.parametrize("carrier", EDGES)
def test_of_several_edges_the_one_that_carries_the_name_is_found(port: int, carrier: str) -> None:
    with ExitStack() as stack:
        for address in EDGES:
            carries = "app.example.test" if address == carrier else "other.example.test"
            stack.enter_context(edge(address, port, carries))
        assert whereabouts.address_of("app.example.test", at(EDGES, "edge")) == carrier
        assert whereabouts.address_of("nobody.example.test", at(EDGES, "edge")) == EDGES[0], "who then says so"


# ---- DNS


@contextmanager
def name_server(address: str, port: int, known: dict[str, list[str]]) -> Iterator[None]:
    door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    door.bind((address, port))
    door.settimeout(0.05)
    over = threading.Event()

    def answer() -> None:
        while not over.is_set():
            try:
                content, asker = door.recvfrom(4096)
            except TimeoutError:
                continue
            asked = message.from_wire(content)
            reply = message.make_response(asked)
            addresses = known.get(asked.question[0].name.to_text(omit_final_dot=True), [])
            if addresses:
                reply.answer.append(rrset.from_text(asked.question[0].name, 1, "IN", "A", *addresses))
            else:
                reply.set_rcode(rcode.NXDOMAIN)
            door.sendto(reply.to_wire(), asker)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(5)
        door.close()


def test_an_internal_name_is_where_the_first_answering_node_says(port: int) -> None:
    """M-134: the node that is silent is passed over; the one that answers is believed."""
    with name_server(NODES[1], port, {"app.shop.svc.lab.test": ["100.64.7.12"]}):
        assert whereabouts.address_of("app.shop.svc.lab.test", at(NODES, "worker")) == "100.64.7.12"
        with pytest.raises(Unreachable) as refused:
            whereabouts.address_of("nobody.shop.svc.lab.test", at(NODES, "worker"))
        assert refused.value.code == "unknown_name"


def test_silence_of_all_nodes_is_said(port: int) -> None:
    with pytest.raises(Unreachable) as refused:
        whereabouts.address_of("app.shop.svc.lab.test", at(NODES, "worker"))
    assert refused.value.code == "dns_silent" and "lab status" in refused.value.remedy
