"""A plain socket inside TLS: the peer is proven within the handshake, nothing can be said to anybody else (S01)."""

import socket
import time

import pytest

from holdfast.adapters.tls import client
from tests.fleets.tls_peers import HOST, OURS, THEIRS, Eavesdropper, impostors


def dial(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), 10)


@pytest.mark.parametrize("impostor", list(impostors()))
def test_no_socket_comes_back_for_an_impostor(impostor: str) -> None:
    with Eavesdropper(impostors()[impostor]) as ear:
        with pytest.raises((client.WrongHub, OSError)):
            client.secured(dial(ear.port), HOST, OURS.line, time.time)
        ear.settle()
        assert bytes(ear.heard) == b""


def test_the_pinned_hub_gets_what_is_said() -> None:
    with Eavesdropper(OURS.context()) as ear:
        with client.secured(dial(ear.port), HOST, OURS.line, time.time) as line:
            line.sendall(b"hello")
        ear.settle()
        assert bytes(ear.heard) == b"hello"


def test_without_a_pin_the_systems_authorities_decide() -> None:
    with Eavesdropper(THEIRS.context()) as ear:
        with pytest.raises(client.WrongHub) as refusal:
            client.secured(dial(ear.port), HOST, "", time.time)
        assert "self-signed" in refusal.value.message
        ear.settle()
        assert bytes(ear.heard) == b""


def test_a_refusal_is_found_again_below_whatever_wraps_it() -> None:
    refused = client.PeerRefused(client.WrongHub("not it", remedy="look"))
    try:
        try:
            raise refused
        except OSError as inner:
            raise RuntimeError("wrapped") from inner
    except RuntimeError as outer:
        assert client.refusal(outer) is refused.trouble
    assert client.refusal(OSError("something else")) is None
