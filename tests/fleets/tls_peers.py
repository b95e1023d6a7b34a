"""Hubs and impostors at the other end of TLS: keys, certificates good and bad, a listener that counts what it hears."""

import socket
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from holdfast.adapters.certificates import x509
from holdfast.adapters.tls.server import server_context
from tests.fleets.waiting import wait_until

DAY_S = 86_400.0
HOST = "127.0.0.1"


class HubKey:
    """A hub's whole identity, also where only the hub should have it: tests play the hub that renewed too late."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self.private = private
        self.file = self.private.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
        public = self.private.public_key()
        self.line = public.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH).decode("ascii")

    def context(self, names: Sequence[str] = (HOST, "localhost"), made_s: float | None = None) -> ssl.SSLContext:
        now_s = time.time() if made_s is None else made_s
        return server_context(x509.make_hub_certificate(self.private, names, now_s), self.file)


def named(name: str) -> HubKey:
    """The same name is always the same key."""
    return HubKey(Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest()))


OURS = named("our hub")
THEIRS = named("somebody else's hub")


def impostors(ours: HubKey = OURS) -> dict[str, ssl.SSLContext]:
    """Every certificate that must not be believed by a client that pins `ours` and dials HOST (S01)."""
    old_tls = ours.context()
    old_tls.minimum_version, old_tls.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    return {
        "key of another": THEIRS.context(),
        "expired": ours.context(made_s=time.time() - 91 * DAY_S),
        "not yet valid": ours.context(made_s=time.time() + 2 * DAY_S),
        "wrong name": ours.context(("hub.example", "192.0.2.1")),
        "TLS 1.2": old_tls,
    }


class Eavesdropper:
    """Shakes hands with everybody and counts the application bytes it is given; passes them on to `beyond` if told."""

    def __init__(
        self, context: ssl.SSLContext, beyond: tuple[str, int] | None = None, place: tuple[str, int] = (HOST, 0)
    ) -> None:
        self._context = context
        self._beyond = beyond
        self._door = socket.create_server(place)
        self._door.settimeout(0.1)
        self._told = threading.Event()
        self._threads: list[threading.Thread] = []
        self.port: int = self._door.getsockname()[1]
        self.callers = 0  # TCP connections
        self.greeted = 0  # handshakes that went through, seen from this side
        self.heard = bytearray()  # application bytes

    def __enter__(self) -> "Eavesdropper":
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._told.set()
        for thread in self._threads:
            thread.join(60)
        self._door.close()

    def settle(self, callers: int = 1) -> None:
        """Until everybody who called has hung up again."""

        def left() -> bool:
            return self.callers >= callers and not any(thread.is_alive() for thread in self._threads[1:])

        wait_until(left, lambda: f"{self.callers} of {callers} callers came, and all left")

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._told.is_set():
            with suppress(TimeoutError):
                line, _ = self._door.accept()
                self._start(self._hear, line)
                self.callers += 1

    def _hear(self, line: socket.socket) -> None:
        line.settimeout(5)
        with line, suppress(OSError), self._context.wrap_socket(line, server_side=True) as inside:
            self.greeted += 1
            while piece := inside.recv(65536):
                self.heard += piece
                if self._beyond is not None:
                    inside.sendall(self._ask_beyond(piece))

    def _ask_beyond(self, piece: bytes) -> bytes:
        assert self._beyond is not None
        careless = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        careless.check_hostname = False
        careless.verify_mode = ssl.CERT_NONE
        with careless.wrap_socket(socket.create_connection(self._beyond, 5)) as there:
            there.sendall(piece)
            return there.recv(65536)
