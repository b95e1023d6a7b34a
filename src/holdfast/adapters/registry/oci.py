"""Resolve image tags through the OCI distribution API. Never raises for a failing registry; logs nothing.

The network modules are imported inside the call: they cost 40 ms, and most commands need no registry.
"""

import io
import os
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from holdfast.adapters.registry.credentials import basic, usual_auth_files
from holdfast.adapters.registry.image_name import (
    Image,
    Origin,
    challenge,
    is_loopback,
    origin_of,
    parse,
    parsed_url,
)
from holdfast.ports.registry import ABSENT

if TYPE_CHECKING:
    import socket
    import ssl
    from http.client import HTTPResponse

THREADS_MAX = 8
CONNECT_S = 2.0
REFERENCE_S = 3.0
RESOLVE_S = 4.5  # half a second below the promised limit, for starting threads on a busy machine
MANIFEST_BYTES_MAX = 4 * 1024 * 1024  # the size that the specification requires registries to accept
ANSWER_BYTES_MAX = MANIFEST_BYTES_MAX + 256 * 1024  # with status line and headers
TOKEN_BYTES_MAX = 64 * 1024

MANIFEST_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_HEADERS = {"Accept": ", ".join(MANIFEST_TYPES), "User-Agent": "holdfast", "Connection": "close"}

_digest = re.compile(r"sha256:[0-9a-f]{64}\Z")
_token = re.compile(r"[A-Za-z0-9._~+/=-]+\Z")


class OciRegistry:
    def __init__(self, auth_files: Sequence[str] | None = None) -> None:
        """The files are read when a registry requires credentials; the default is those of podman and docker."""
        self._auth_files = auth_files

    def resolve(self, references: Sequence[str]) -> Mapping[str, str]:
        images = {reference: image for reference in references if (image := parse(reference))}
        if not images:
            return {}
        import threading

        files = usual_auth_files(os.environ) if self._auth_files is None else self._auth_files
        errand = _Errand(images, files)
        threads = [threading.Thread(target=errand.run, daemon=True) for _ in images][:THREADS_MAX]
        with suppress(RuntimeError):  # no more threads available: those that started do the work
            for thread in threads:
                thread.start()
        for thread in threads:
            if thread.ident is not None:
                # Not joined for longer: a DNS lookup cannot be interrupted, and a daemon thread needs no join.
                thread.join(max(0.0, errand.until_s - time.monotonic()))
        return errand.answers.copy()


class _Trouble(Exception):
    """The registry gave no valid answer. Carries no message: the reference is only left out."""


class _Errand:
    """One `resolve`: the open references, the answers, and the deadline."""

    def __init__(self, images: Mapping[str, Image], auth_files: Sequence[str]) -> None:
        self.until_s = time.monotonic() + RESOLVE_S
        self.answers: dict[str, str] = {}
        self._auth_files = auth_files
        self._waiting = deque(images.items())
        self.down: set[Origin] = set()  # so that ten images of an unreachable registry cost one timeout, not ten

    def run(self) -> None:
        while self._waiting and time.monotonic() < self.until_s:
            with suppress(Exception):  # on any error this reference is left out and the next one is tried
                reference, image = self._waiting.popleft()
                call = _Call(image, self)
                try:
                    self.answers[reference] = call.digest()
                finally:
                    if time.monotonic() >= call.until_s:  # too slow for one image: skip the registry's other images
                        self.down.add(call.origin)

    def basic(self, image: Image) -> str | None:
        return basic(self._auth_files, image)

    @cached_property
    def tls(self) -> "ssl.SSLContext":
        import ssl

        return ssl.create_default_context()


class _Call:
    """All requests about one image, with one deadline."""

    def __init__(self, image: Image, errand: _Errand) -> None:
        self._image = image
        self.origin = origin_of(image)
        self._errand = errand
        self.until_s = min(errand.until_s, time.monotonic() + REFERENCE_S)
        self._authorization: str | None = None

    def digest(self) -> str:
        """HEAD transfers no body and, at some registries, costs no quota; GET is for registries without the header.
        Only two answers make a tag absent: some registries do not know HEAD."""
        with self._manifest("HEAD") as response:
            said = response.headers.get("Docker-Content-Digest")
            if response.status == 200 and said is not None:
                return _checked(said)
            if response.status not in (200, 404, 405, 501):
                raise _Trouble
            unknown = response.status == 404
        with self._manifest("GET") as response:
            return ABSENT if unknown and response.status == 404 else _digest_of_body(response)

    @contextmanager
    def _manifest(self, method: str) -> "Iterator[HTTPResponse]":
        origin, target = self.origin, f"/v2/{self._image.name}/manifests/{self._image.tag}"
        with self._ask(method, origin, target, self._authorization) as response:
            status, location = response.status, response.headers.get("Location")
            challenges = response.headers.get_all("WWW-Authenticate") or []
            if status not in (307, 401) or (status == 401 and self._authorization):
                yield response
                return
        if status == 401:
            self._authorization = self._authorized(challenges)
            with self._manifest(method) as response:
                yield response
            return
        origin, target = self._redirected(location or "")
        authorization = self._authorization if origin == self.origin else None  # never sent to another origin
        with self._ask(method, origin, target, authorization) as response:
            yield response

    def _redirected(self, location: str) -> tuple[Origin, str]:
        if location.startswith("/") and not location.startswith("//"):
            return self.origin, location
        found = parsed_url(location)
        if found is None or found[0].secure != self.origin.secure:
            raise _Trouble
        return found

    def _authorized(self, challenges: Sequence[str]) -> str:
        """A bearer token, anonymous if we have no credentials; or the credentials themselves if Basic is requested.

        Passwords and tokens are sent only over TLS or to loopback.
        """
        safe = self.origin.secure or is_loopback(self.origin.host)
        basic = self._errand.basic(self._image) if safe else None
        bearer = challenge(challenges, "bearer")
        if bearer is not None:
            return f"Bearer {self._token(bearer, basic)}"
        if basic is not None and challenge(challenges, "basic") is not None:
            return basic
        raise _Trouble

    def _token(self, bearer: Mapping[str, str], basic: str | None) -> str:
        import json
        from urllib.parse import urlencode

        found = parsed_url(bearer.get("realm", ""))
        if found is None:
            raise _Trouble
        realm, target = found
        if not realm.secure and not (is_loopback(realm.host) and realm.host == self.origin.host):
            raise _Trouble
        scope = bearer.get("scope", "")
        if not scope.endswith(":pull"):  # only read access, even if the registry proposes more
            scope = f"repository:{self._image.name}:pull"
        asked = {"service": bearer["service"]} if "service" in bearer else {}
        target += ("&" if "?" in target else "?") + urlencode({**asked, "scope": scope})
        with self._ask("GET", realm, target, basic) as response:
            content = response.read(TOKEN_BYTES_MAX + 1)
            if response.status != 200 or len(content) > TOKEN_BYTES_MAX:
                raise _Trouble
        answer = json.loads(content)
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not _token.match(token):
            raise _Trouble
        return token

    @contextmanager
    def _ask(self, method: str, origin: Origin, target: str, authorization: str | None) -> "Iterator[HTTPResponse]":
        from http.client import HTTPConnection

        headers = {**_HEADERS, "Authorization": authorization} if authorization else _HEADERS
        connection = HTTPConnection(origin.host, origin.port)
        connection.default_port = 443 if origin.secure else 80  # keeps the default port out of the Host header
        with closing(self._connected(origin)) as wire, closing(connection):
            connection.sock = cast("socket.socket", _Wire(wire, self.until_s))
            connection.request(method, target, headers=headers)
            with closing(connection.getresponse()) as response:
                yield response

    def _connected(self, origin: Origin) -> "socket.socket":
        import socket

        if origin in self._errand.down:
            raise _Trouble
        until_s = min(self.until_s, time.monotonic() + CONNECT_S)
        with suppress(OSError):  # the name cannot be resolved
            for family, kind, _, _, address in socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM):
                wire = socket.socket(family, kind)
                try:
                    wire.settimeout(_left_s(until_s))
                    wire.connect(address)
                    wire.settimeout(_left_s(until_s))
                    return self._errand.tls.wrap_socket(wire, server_hostname=origin.host) if origin.secure else wire
                except (OSError, _Trouble):
                    wire.close()  # the next address may answer
        if time.monotonic() < self.until_s:  # the connect limit ran out, not this image's own limit
            self._errand.down.add(origin)
        raise _Trouble


class _Wire:
    """A socket with a total deadline, however slowly the peer sends, and a limit of bytes."""

    def __init__(self, wire: "socket.socket", until_s: float) -> None:
        self._wire = wire
        self._until_s = until_s

    def sendall(self, content: bytes) -> None:
        self._wire.settimeout(_left_s(self._until_s))
        self._wire.sendall(content)

    def makefile(self, mode: str) -> io.BufferedReader:
        assert mode == "rb"
        return io.BufferedReader(_Inflow(self._wire, self._until_s))

    def close(self) -> None:
        """Does nothing: http.client closes after the headers, while the body is still to come."""


class _Inflow(io.RawIOBase):
    def __init__(self, wire: "socket.socket", until_s: float) -> None:
        self._wire = wire
        self._until_s = until_s
        self._left_bytes = ANSWER_BYTES_MAX

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._wire.settimeout(_left_s(self._until_s))
        size = self._wire.recv_into(buffer)
        self._left_bytes -= size
        if self._left_bytes < 0:
            raise _Trouble
        return size


def _left_s(until_s: float) -> float:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise _Trouble
    return left_s


def _checked(digest: str) -> str:
    if not _digest.match(digest):
        raise _Trouble
    return digest


def _digest_of_body(response: "HTTPResponse") -> str:
    """Our own hash, accepted if the registry reports the same, or reports none and marks the end of the body."""
    kind = (response.headers.get("Content-Type") or "").partition(";")[0].strip()
    content = response.read(MANIFEST_BYTES_MAX + 1)
    if response.status != 200 or kind not in MANIFEST_TYPES or len(content) > MANIFEST_BYTES_MAX:
        raise _Trouble  # for example a login page
    digest = f"sha256:{sha256(content).hexdigest()}"
    said = response.headers.get("Docker-Content-Digest")
    whole = response.chunked or response.length == 0  # a body that just stops may be truncated
    if said != digest and not (said is None and whole):
        raise _Trouble
    return digest
