"""Somebody between us and an authority, with a certificate of his own that we believe: changes what he likes."""

import http.client
import ipaddress
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from cryptography import x509 as lib
from msgspec import Struct

from holdfast.adapters.tls.server import server_context
from tests.fleets.chains import Authority, pem

HOST = "127.0.0.1"
_HOPS = {"content-length", "transfer-encoding", "connection", "alt-svc"}


class Reply(Struct):
    status: int
    headers: dict[str, str]
    body: bytes


# (method, path, what the authority said) → what is said instead
Change = Callable[[str, str, Reply], Reply]


def nothing(method: str, path: str, reply: Reply) -> Reply:
    return reply


class Meddler:
    def __init__(self, directory: str, change: Change = nothing) -> None:
        self.change = change
        self.asked: list[str] = []
        self.bodies: list[tuple[str, bytes]] = []  # path and body of every request
        self._beyond = urlsplit(directory)
        authority = Authority(time.time(), "Meddler")
        leaf, private = authority.leaf((), others=[lib.IPAddress(ipaddress.ip_address(HOST))])
        self.root = pem(authority.root).decode()
        meddler = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                reply = meddler.answer(self.command, self.path, body, dict(self.headers))
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.body)

            do_POST = do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                """Tests read `asked`."""

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        context = server_context(pem(leaf) + pem(authority.intermediate), private)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.directory = f"https://{HOST}:{self._server.server_address[1]}{self._beyond.path}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "Meddler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        self.asked.append(f"{method} {path}")
        self.bodies.append((path, body))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        beyond = http.client.HTTPSConnection(HOST, self._beyond.port, timeout=10, context=context)
        try:
            beyond.request(method, path, body or None, headers)
            said = beyond.getresponse()
            kept = {name: value for name, value in said.getheaders() if name.lower() not in _HOPS}
            return self.change(method, path, Reply(said.status, kept, said.read()))
        finally:
            beyond.close()
