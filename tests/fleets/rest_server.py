"""A server of restic's REST protocol (version 2), as small as it can be: rest-server itself is no package of Debian."""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

KINDS = ("data", "keys", "locks", "snapshots", "index")
USER, PASSWORD = "holdfast", "password-of-rest"


class RestServer:
    """`full`: it answers 507 to every object from then on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.full = False
        self.asked: list[str] = []
        server = self

        class Handler(_Handler):
            rest = server

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def location(self, user: str = "", password: str = "") -> str:
        login = f"{user}:{password}@" if user else ""
        return f"rest:http://{login}127.0.0.1:{self.http.server_port}/"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rest: RestServer

    def log_message(self, format: str, *args: object) -> None:
        return None

    def _answer(self, status: int, body: bytes = b"", length: int | None = None, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _path(self) -> Path | None:
        self.rest.asked.append(f"{self.command} {self.path}")
        wanted = b"Basic " + b64encode(f"{USER}:{PASSWORD}".encode())
        if self.headers.get("Authorization", "").encode() != wanted:
            self._answer(401)
            return None
        return self.rest.folder / urlsplit(self.path).path.strip("/")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self._path()
        if path is None:
            return
        if self.path.endswith("?create=true"):
            for kind in KINDS:
                (path / kind).mkdir(parents=True, exist_ok=True)
        elif self.rest.full:
            self._answer(507)
            return
        else:
            path.write_bytes(body)
        self._answer(200)

    def do_GET(self) -> None:
        path = self._path()
        if path is None:
            return
        if path.is_dir():
            found = [{"name": one.name, "size": one.stat().st_size} for one in sorted(path.iterdir())]
            self._answer(200, json.dumps(found).encode(), kind="application/vnd.x.restic.rest.v2")
        elif not path.exists():
            self._answer(404)
        elif wanted := self.headers.get("Range", "").removeprefix("bytes="):
            first, _, last = wanted.partition("-")
            self._answer(206, path.read_bytes()[int(first) : int(last) + 1 if last else None])
        else:
            self._answer(200, path.read_bytes())

    def do_HEAD(self) -> None:
        path = self._path()
        if path is not None:
            self._answer(*((200, b"", path.stat().st_size) if path.is_file() else (404,)))

    def do_DELETE(self) -> None:
        path = self._path()
        if path is not None:
            path.unlink(missing_ok=True)
            self._answer(200)


@contextmanager
def rest_server(folder: Path) -> Iterator[RestServer]:
    folder.mkdir()
    made = RestServer(folder)
    try:
        yield made
    finally:
        made.close()
