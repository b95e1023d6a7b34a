"""Every registry says which digest a tag stands for, or nothing; nothing it does can hurt or hold us (M-40)."""

import base64
import datetime
import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast.adapters.registry.credentials import usual_auth_files
from holdfast.adapters.registry.image_name import Image, Origin, origin_of, parse
from holdfast.adapters.registry.memory import MemoryRegistry
from holdfast.adapters.registry.oci import MANIFEST_BYTES_MAX, MANIFEST_TYPES, OciRegistry
from holdfast.ports.registry import ABSENT, Registry
from tests.fleets.ports import free_port
from tests.fleets.waiting import Stopwatch, wait_until

OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST = MANIFEST_TYPES
LIMIT_S = 5.0


def digest_of(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


@contextmanager
def in_time() -> Iterator[None]:
    watch = Stopwatch()
    yield
    assert watch.within(LIMIT_S)


# ---- shelves: something to push to, and the registry that looks there -----------------------------------------------


class MemoryShelf:
    def __init__(self) -> None:
        self._registry = MemoryRegistry()
        self.registry: Registry = self._registry

    def push(self, name: str, tag: str, text: str) -> tuple[str, str]:
        reference, digest = f"memory.test/{name}:{tag}", digest_of(text.encode())
        self._registry.push(reference, digest)
        return reference, digest

    def reference(self, name: str, tag: str) -> str:
        return f"memory.test/{name}:{tag}"

    def stop(self) -> None:
        self._registry.down = True


class DockerShelf:
    """A real registry as Debian packages it, with its files in a throw-away directory."""

    def __init__(self, room: Path) -> None:
        self.port = free_port()
        self.registry: Registry = OciRegistry(auth_files=())
        config = {
            "version": 0.1,
            "log": {"accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(room / "storage")}},
            "http": {"addr": f"127.0.0.1:{self.port}"},
        }
        (room / "config.yml").write_text(json.dumps(config))  # JSON is YAML
        self._room = room
        self.start()

    def start(self) -> None:
        with (self._room / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["docker-registry", "serve", str(self._room / "config.yml")],
                env={"PATH": os.environ["PATH"], "HOME": str(self._room), "OTEL_TRACES_EXPORTER": "none"},
                stdout=log,
                stderr=log,
            )
        self._wait()

    def push(self, name: str, tag: str, text: str) -> tuple[str, str]:
        config = self._blob(name, json.dumps({"architecture": "amd64", "os": "linux", "text": text}).encode())
        layer = self._blob(name, text.encode())
        manifest = {
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **config},
            "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **layer}],
        }
        content = json.dumps(manifest).encode()
        self.put_manifest(name, tag, DOCKER_MANIFEST, content)
        return self.reference(name, tag), digest_of(content)

    def put_manifest(self, name: str, tag: str, kind: str, content: bytes) -> None:
        self._call("PUT", f"/v2/{name}/manifests/{tag}", 201, content, {"Content-Type": kind})

    def reference(self, name: str, tag: str) -> str:
        return f"127.0.0.1:{self.port}/{name}:{tag}"

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=60)

    def _blob(self, name: str, content: bytes) -> dict[str, str | int]:
        place = self._call("POST", f"/v2/{name}/blobs/uploads/", 202).headers["Location"]
        parts = urlsplit(place)
        target = f"{parts.path}?{parts.query}&digest={digest_of(content)}"
        self._call("PUT", target, 201, content, {"Content-Type": "application/octet-stream"})
        return {"digest": digest_of(content), "size": len(content)}

    def _call(
        self, method: str, target: str, wanted: int, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> HTTPResponse:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, body, headers or {})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        assert response.status == wanted, content
        return response

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until and self._process.poll() is None:
            try:
                self._call("GET", "/v2/", 200)
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        pytest.fail("docker-registry did not start")


Shelf = MemoryShelf | DockerShelf


@pytest.fixture
def docker_shelf(tmp_path: Path) -> Iterator[DockerShelf]:
    shelf = DockerShelf(tmp_path)
    yield shelf
    shelf.stop()


@pytest.fixture(params=["memory", pytest.param("docker-registry", marks=pytest.mark.lab)])
def shelf(request: pytest.FixtureRequest) -> Shelf:
    if request.param == "memory":
        return MemoryShelf()
    found: DockerShelf = request.getfixturevalue("docker_shelf")
    return found


# ---- every registry -------------------------------------------------------------------------------------------------


def test_tags_are_resolved_to_the_digests_they_stand_for(shelf: Shelf) -> None:
    pushed = dict(
        [shelf.push("hello", "1", "one"), shelf.push("hello", "2", "two"), shelf.push("team/web", "1.2", "w")]
    )
    assert len(set(pushed.values())) == 3
    assert shelf.registry.resolve(tuple(pushed)) == pushed


def test_a_tag_that_was_pushed_again_gives_the_new_digest(shelf: Shelf) -> None:
    reference, first = shelf.push("hello", "1", "one")
    assert shelf.registry.resolve([reference]) == {reference: first}
    _, second = shelf.push("hello", "1", "another one")
    assert second != first
    assert shelf.registry.resolve([reference]) == {reference: second}


def test_an_unknown_tag_or_image_is_absent_and_the_others_are_answered_n31(shelf: Shelf) -> None:
    reference, digest = shelf.push("hello", "1", "one")
    tag, image = shelf.reference("hello", "9"), shelf.reference("nobody/knows", "1")
    answers = {tag: ABSENT, reference: digest, image: ABSENT}
    assert shelf.registry.resolve([tag, reference, image]) == answers


def test_a_reference_asked_for_twice_is_answered_once(shelf: Shelf) -> None:
    reference, digest = shelf.push("hello", "1", "one")
    assert shelf.registry.resolve([reference, reference]) == {reference: digest}


def test_nothing_asked_is_nothing_answered(shelf: Shelf) -> None:
    assert shelf.registry.resolve([]) == {}


def test_a_registry_that_is_down_leaves_everything_out_in_time(shelf: Shelf) -> None:
    pushed = [shelf.push("hello", str(tag), str(tag))[0] for tag in range(20)]
    shelf.stop()
    with in_time():
        assert shelf.registry.resolve(pushed) == {}


@pytest.mark.lab
def test_fifty_tags_are_resolved_in_time(docker_shelf: DockerShelf) -> None:
    pushed = dict(docker_shelf.push(f"team/app{number % 5}", str(number), str(number)) for number in range(50))
    with in_time():
        assert docker_shelf.registry.resolve(tuple(pushed)) == pushed


@pytest.mark.lab
@pytest.mark.parametrize("kind", [OCI_INDEX, OCI_MANIFEST, DOCKER_LIST])
def test_every_kind_of_manifest_is_resolved_to_its_own_digest(docker_shelf: DockerShelf, kind: str) -> None:
    reference, inner = docker_shelf.push("hello", "1", "one")
    platform = {"architecture": "amd64", "os": "linux"}
    if kind == OCI_MANIFEST:
        stored = docker_shelf._call("GET", "/v2/hello/manifests/1", 200, headers={"Accept": DOCKER_MANIFEST})
        assert stored.headers["Docker-Content-Digest"] == inner
        config, layer = docker_shelf._blob("hello", b"{}"), docker_shelf._blob("hello", b"layer")
        manifest = {
            "schemaVersion": 2,
            "mediaType": kind,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **layer}],
        }
    else:
        size = int(
            docker_shelf._call("GET", "/v2/hello/manifests/1", 200, headers={"Accept": DOCKER_MANIFEST}).headers[
                "Content-Length"
            ]
        )
        item = {"mediaType": DOCKER_MANIFEST, "digest": inner, "size": size, "platform": platform}
        manifest = {"schemaVersion": 2, "mediaType": kind, "manifests": [item]}
    content = json.dumps(manifest).encode()
    docker_shelf.put_manifest("hello", "1", kind, content)
    assert docker_shelf.registry.resolve([reference]) == {reference: digest_of(content)}


# ---- how references are read: pure ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "image"),
    [
        ("nginx", Image("docker.io", "library/nginx", "latest")),
        ("nginx:1.25", Image("docker.io", "library/nginx", "1.25")),
        ("team/web", Image("docker.io", "team/web", "latest")),
        ("docker.io/nginx", Image("docker.io", "library/nginx", "latest")),
        ("index.docker.io/nginx:1", Image("docker.io", "library/nginx", "1")),
        ("docker.io/team/web:1", Image("docker.io", "team/web", "1")),
        ("ghcr.io/team/web:1", Image("ghcr.io", "team/web", "1")),
        ("localhost/web", Image("localhost", "web", "latest")),
        ("localhost:5000/web:2", Image("localhost:5000", "web", "2")),
        ("hub:5000/web:2", Image("hub:5000", "web", "2")),
        ("100.64.0.1:5000/a/b/c:X_y.1", Image("100.64.0.1:5000", "a/b/c", "X_y.1")),
        ("web:5000", Image("docker.io", "library/web", "5000")),
    ],
)
def test_a_reference_is_read_as_docker_reads_it(reference: str, image: Image) -> None:
    assert parse(reference) == image


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "/web",
        "web:",
        "web/",
        "a//b",
        "../web",
        "ghcr.io/../web",
        "ghcr.io/web:1/2",
        "ghcr.io/web?x:1",
        "ghcr.io/we b:1",
        "ghcr.io/web:1\r\nX: y",
        "ghcr.io/web:1\n",
        "evil@ghcr.io/web:1",
        "ghcr.io:0/web:1",
        "[::1]:5000/web:1",
        f"web@sha256:{'0' * 64}",
        f"web:1@sha256:{'0' * 64}",
    ],
)
def test_what_is_no_tag_in_a_registry_is_not_asked_for(reference: str) -> None:
    assert parse(reference) is None
    assert OciRegistry(auth_files=()).resolve([reference]) == {}


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("docker.io", Origin("registry-1.docker.io", 443, True)),
        ("ghcr.io", Origin("ghcr.io", 443, True)),
        ("ghcr.io:5000", Origin("ghcr.io", 5000, True)),
        ("localhost", Origin("localhost", 80, False)),
        ("127.0.0.1:5000", Origin("127.0.0.1", 5000, False)),
        ("127.8.9.10", Origin("127.8.9.10", 80, False)),
        ("100.64.0.1:5000", Origin("100.64.0.1", 5000, False)),
        ("100.127.255.255", Origin("100.127.255.255", 80, False)),
        ("100.63.0.1", Origin("100.63.0.1", 443, True)),
        ("100.128.0.1", Origin("100.128.0.1", 443, True)),
        ("10.0.0.1", Origin("10.0.0.1", 443, True)),
        ("100.64.0.1.example.com", Origin("100.64.0.1.example.com", 443, True)),
        ("127.0.0.1.example.com", Origin("127.0.0.1.example.com", 443, True)),
        ("127.1", Origin("127.1", 443, True)),
        ("127.0.0.01", Origin("127.0.0.01", 443, True)),
        ("127.0.0.256", Origin("127.0.0.256", 443, True)),
        ("localhost.example.com", Origin("localhost.example.com", 443, True)),
    ],
)
def test_only_this_machine_and_the_overlay_are_spoken_to_without_tls(host: str, origin: Origin) -> None:
    assert origin_of(Image(host, "web", "1")) == origin


def test_the_auth_file_that_was_chosen_is_the_only_one() -> None:
    assert usual_auth_files({"REGISTRY_AUTH_FILE": "/a", "HOME": "/h"}) == ("/a",)
    assert usual_auth_files({"HOME": "/h"}) == ("/h/.config/containers/auth.json", "/h/.docker/config.json")
    assert usual_auth_files({}) == ()


def test_the_network_modules_are_loaded_by_the_first_question_and_not_before() -> None:
    code = (
        "import sys; from holdfast.adapters.registry.oci import OciRegistry; OciRegistry().resolve([]); "
        "print([m for m in ('http.client', 'ssl', 'socket', 'json', 'email', 'urllib.parse') if m in sys.modules])"
    )
    env = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    run = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = [{env['PYTHONPATH']!r}]; {code}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout == "[]\n", run.stdout + run.stderr


# ---- registries that misbehave --------------------------------------------------------------------------------------

MANIFEST = b'{"schemaVersion": 2}'
GOOD = digest_of(MANIFEST)


@dataclass
class Asked:
    method: str
    target: str
    authorization: str | None
    accept: str | None


@dataclass
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    length: int | None = -1  # what Content-Length claims: -1 the truth, None nothing


def manifest_reply(said: str | None = GOOD, kind: str = OCI_MANIFEST, body: bytes = MANIFEST) -> Reply:
    return Reply(200, {"Content-Type": kind, **({"Docker-Content-Digest": said} if said is not None else {})}, body)


class Fake:
    """A server on loopback that answers as a function says, and remembers what it was asked."""

    def __init__(self, answer: Callable[[Asked], Reply], host: str = "127.0.0.1", tls: ssl.SSLContext | None = None):
        self.asked: list[Asked] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                asked = Asked(self.command, self.path, self.headers["Authorization"], self.headers["Accept"])
                fake.asked.append(asked)
                reply = answer(asked)
                self.send_response(reply.status)
                for key, value in reply.headers.items():
                    self.send_header(key, value)
                if reply.length is not None:
                    self.send_header("Content-Length", str(len(reply.body) if reply.length == -1 else reply.length))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.body)

            do_GET = do_HEAD = _answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                pass  # the client may hang up whenever it likes

        self._server = Server((host, 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.host = f"{host}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


MakeFake = Callable[..., Fake]


@pytest.fixture
def fake() -> Iterator[MakeFake]:
    with ExitStack() as stack:

        def make(answer: Callable[[Asked], Reply], host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Fake:
            made = Fake(answer, host, tls)
            stack.callback(made.close)
            return made

        yield make


def asked_of(server: Fake, auth_files: Sequence[str] = ()) -> str | None:
    reference = f"{server.host}/hello:1"
    with in_time():
        return OciRegistry(auth_files).resolve([reference]).get(reference)


def test_a_head_request_with_all_four_types_is_enough(fake: MakeFake) -> None:
    server = fake(lambda asked: manifest_reply())
    assert asked_of(server) == GOOD
    assert server.asked == [Asked("HEAD", "/v2/hello/manifests/1", None, ", ".join(MANIFEST_TYPES))]


@pytest.mark.parametrize("head", [manifest_reply(said=None), Reply(405), Reply(501)])
@pytest.mark.parametrize("said", [GOOD, None])
def test_a_registry_that_does_not_say_it_in_a_head_is_asked_for_the_body(
    fake: MakeFake, head: Reply, said: str | None
) -> None:
    server = fake(lambda asked: head if asked.method == "HEAD" else manifest_reply(said))
    assert asked_of(server) == GOOD


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 502, 503])
def test_a_refusal_does_not_make_an_image_absent_n31(fake: MakeFake, status: int) -> None:
    server = fake(lambda asked: Reply(status))
    assert asked_of(server) is None
    assert {one.method for one in server.asked} == {"HEAD"}, "a GET may cost quota"


@pytest.mark.parametrize("head", [Reply(405), Reply(501), manifest_reply(said=None)])
def test_a_get_alone_does_not_make_an_image_absent_n31(fake: MakeFake, head: Reply) -> None:
    assert asked_of(fake(lambda asked: head if asked.method == "HEAD" else Reply(404))) is None


@pytest.mark.parametrize(("get", "found"), [(manifest_reply(), GOOD), (Reply(404), ABSENT), (Reply(403), None)])
def test_only_the_answer_to_a_get_makes_an_image_absent_n31(fake: MakeFake, get: Reply, found: str | None) -> None:
    assert asked_of(fake(lambda asked: Reply(404) if asked.method == "HEAD" else get)) == found


MALFORMED = ["", "sha256:", GOOD[:-1], GOOD + "0", GOOD.upper(), GOOD[7:], "md5:" + "0" * 32, "sha512:" + "0" * 128]


@pytest.mark.parametrize("said", MALFORMED)
def test_a_malformed_digest_is_not_an_answer(fake: MakeFake, said: str) -> None:
    assert asked_of(fake(lambda asked: manifest_reply(said))) is None
    assert asked_of(fake(lambda asked: manifest_reply(None if asked.method == "HEAD" else said))) is None


def test_a_digest_that_is_not_that_of_the_body_is_not_an_answer(fake: MakeFake) -> None:
    lie = digest_of(b"something else")
    assert asked_of(fake(lambda asked: manifest_reply(None if asked.method == "HEAD" else lie))) is None


@pytest.mark.parametrize(
    "reply",
    [
        manifest_reply(None, kind="text/html"),
        manifest_reply(None, kind="application/vnd.docker.distribution.manifest.v1+prettyjws"),
        Reply(200, {"Content-Type": OCI_MANIFEST}, MANIFEST, length=1000),
        Reply(200, {"Content-Type": OCI_MANIFEST}, MANIFEST, length=None),
        manifest_reply(None, body=b"x" * (MANIFEST_BYTES_MAX + 1)),
        Reply(200, {"Content-Type": OCI_MANIFEST}, MANIFEST, length=10**15),
        Reply(404, {"Content-Type": OCI_MANIFEST}, MANIFEST),
        Reply(500, {"Content-Type": OCI_MANIFEST}, MANIFEST),
    ],
    ids=["login page", "old manifest", "cut short", "endless", "too long", "claims a petabyte", "404", "500"],
)
def test_a_body_that_is_not_one_whole_manifest_is_not_an_answer(fake: MakeFake, reply: Reply) -> None:
    assert asked_of(fake(lambda asked: manifest_reply(None) if asked.method == "HEAD" else reply)) is None


def test_a_body_without_a_length_counts_when_the_registry_names_its_digest(fake: MakeFake) -> None:
    reply = Reply(200, {"Content-Type": OCI_MANIFEST, "Docker-Content-Digest": GOOD}, MANIFEST, length=None)
    assert asked_of(fake(lambda asked: Reply(405) if asked.method == "HEAD" else reply)) == GOOD


def test_an_answer_with_megabytes_of_headers_is_not_read_to_its_end(fake: MakeFake) -> None:
    padding = {f"X-{number}": "x" * 60_000 for number in range(90)}
    reply = Reply(200, {**padding, "Docker-Content-Digest": GOOD})
    assert asked_of(fake(lambda asked: reply)) is None


# ---- redirects


def test_one_307_is_followed_also_to_another_port(fake: MakeFake) -> None:
    target = fake(lambda asked: manifest_reply())
    assert asked_of(fake(lambda asked: Reply(307, {"Location": f"http://{target.host}/else?where=1"}))) == GOOD
    assert [asked.target for asked in target.asked] == ["/else?where=1"]


def test_a_307_within_the_registry_is_followed(fake: MakeFake) -> None:
    server = fake(lambda asked: manifest_reply() if asked.target == "/x" else Reply(307, {"Location": "/x"}))
    assert asked_of(server) == GOOD


@pytest.mark.parametrize("status", [301, 302, 303, 308])
def test_no_other_redirect_is_followed(fake: MakeFake, status: int) -> None:
    server = fake(lambda asked: manifest_reply() if asked.target == "/x" else Reply(status, {"Location": "/x"}))
    assert asked_of(server) is None
    assert len(server.asked) == 1


def test_a_second_307_is_not_followed(fake: MakeFake) -> None:
    server = fake(lambda asked: Reply(307, {"Location": "/x"}))
    assert asked_of(server) is None
    assert [asked.target for asked in server.asked] == ["/v2/hello/manifests/1", "/x"]


@pytest.mark.parametrize("scheme", ["https", "ftp", "file", ""])
def test_a_307_to_another_scheme_is_not_followed(
    fake: MakeFake, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate(tmp_path))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    target = fake(lambda asked: manifest_reply(), tls=tls if scheme == "https" else None)
    assert asked_of(fake(lambda asked: Reply(307, {"Location": f"{scheme}://{target.host}/"}))) is None
    assert target.asked == []


def test_a_307_elsewhere_does_not_take_our_token_along(fake: MakeFake) -> None:
    target = fake(lambda asked: manifest_reply())
    tokens = fake(lambda asked: Reply(body=b'{"token": "T"}'))

    def answer(asked: Asked) -> Reply:
        if asked.authorization is None:
            return Reply(401, {"WWW-Authenticate": f'Bearer realm="http://{tokens.host}/"'})
        return Reply(307, {"Location": f"http://{target.host}/"})

    assert asked_of(fake(answer)) == GOOD
    assert [asked.authorization for asked in target.asked] == [None]


# ---- tokens and credentials

PASSWORD = "hunter2-" + "x" * 20
BASIC = base64.b64encode(f"ada:{PASSWORD}".encode()).decode()


def guarded(challenge: Callable[[], str], authorization: str = "Bearer T0ken") -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        if asked.authorization == authorization:
            return manifest_reply()
        return Reply(401, {"WWW-Authenticate": challenge()})

    return answer


def auth_file(room: Path, **auths: str) -> str:
    path = room / f"auth-{len(os.listdir(room))}.json"
    path.write_text(json.dumps({"auths": {key: {"auth": auth} for key, auth in auths.items()}}))
    return str(path)


@pytest.mark.parametrize("key", ["token", "access_token"])
def test_an_anonymous_token_is_fetched_where_the_registry_says(fake: MakeFake, key: str) -> None:
    tokens = fake(lambda asked: Reply(body=json.dumps({key: "T0ken"}).encode()))
    challenge = f'Bearer realm="http://{tokens.host}/token?x=1",service="shop",scope="repository:hello:pull"'
    server = fake(guarded(lambda: challenge))
    assert asked_of(server) == GOOD
    asked = urlsplit(tokens.asked[0].target)
    assert (asked.path, tokens.asked[0].authorization) == ("/token", None)
    assert parse_qs(asked.query) == {"x": ["1"], "service": ["shop"], "scope": ["repository:hello:pull"]}
    assert [a.authorization for a in server.asked] == [None, "Bearer T0ken"]


@pytest.mark.parametrize("scope", ["", ',scope="repository:hello:pull,push"', ',scope="registry:catalog:*"'])
def test_no_more_than_the_right_to_read_this_image_is_asked_for(fake: MakeFake, scope: str) -> None:
    tokens = fake(lambda asked: Reply(body=b'{"token": "T0ken"}'))
    assert asked_of(fake(guarded(lambda: f'Bearer realm="http://{tokens.host}/"{scope}'))) == GOOD
    assert parse_qs(urlsplit(tokens.asked[0].target).query) == {"scope": ["repository:hello:pull"]}


def test_credentials_go_to_the_token_server_alone_and_are_told_to_nobody(
    fake: MakeFake, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = fake(lambda asked: Reply(body=b'{"token": "T0ken"}'))
    server = fake(guarded(lambda: f'Bearer realm="http://{tokens.host}/"'))
    files = [str(tmp_path / "absent"), auth_file(tmp_path, other=BASIC), auth_file(tmp_path, **{server.host: BASIC})]
    assert asked_of(server, files) == GOOD
    assert [asked.authorization for asked in tokens.asked] == [f"Basic {BASIC}"]
    assert [asked.authorization for asked in server.asked] == [None, "Bearer T0ken"]
    out = "".join(capfd.readouterr()) + caplog.text
    assert PASSWORD not in out
    assert BASIC not in out


def test_a_registry_that_wants_the_password_itself_gets_it(fake: MakeFake, tmp_path: Path) -> None:
    server = fake(guarded(lambda: 'Basic realm="shop"', f"Basic {BASIC}"))
    assert asked_of(server) is None
    assert asked_of(server, [auth_file(tmp_path, **{server.host: BASIC})]) == GOOD
    assert asked_of(server, [auth_file(tmp_path, **{f"{server.host}/hello": BASIC, server.host: "b3RoZXI6"})]) == GOOD


def test_a_wrong_password_is_tried_once(fake: MakeFake, tmp_path: Path) -> None:
    server = fake(lambda asked: Reply(401, {"WWW-Authenticate": 'Basic realm="shop"'}))
    assert asked_of(server, [auth_file(tmp_path, **{server.host: BASIC})]) is None
    assert len(server.asked) == 2


@pytest.mark.parametrize("content", ["", "[]", '{"auths": 3}', '{"auths": {"HOST": 3}}', "[" * 100_000, "\0"])
def test_a_broken_auth_file_is_one_without_credentials(fake: MakeFake, tmp_path: Path, content: str) -> None:
    tokens = fake(lambda asked: Reply(body=b'{"token": "T0ken"}'))
    server = fake(guarded(lambda: f'Bearer realm="http://{tokens.host}/"'))
    (tmp_path / "auth.json").write_text(content.replace("HOST", server.host))
    assert asked_of(server, [str(tmp_path / "auth.json")]) == GOOD
    assert tokens.asked[0].authorization is None


def test_the_auth_files_of_the_environment_are_the_usual_ones(
    fake: MakeFake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = fake(guarded(lambda: 'Basic realm="shop"', f"Basic {BASIC}"))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", auth_file(tmp_path, **{server.host: BASIC}))
    reference = f"{server.host}/hello:1"
    assert OciRegistry().resolve([reference]) == {reference: GOOD}


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost"])
def test_a_realm_without_tls_on_another_host_is_not_asked(fake: MakeFake, host: str) -> None:
    tokens = fake(lambda asked: Reply(body=b'{"token": "T0ken"}'), host=host if host != "localhost" else "127.0.0.1")
    realm = tokens.host.replace("127.0.0.1", host)
    assert asked_of(fake(guarded(lambda: f'Bearer realm="http://{realm}/"'))) is None
    assert tokens.asked == []


@pytest.mark.parametrize(
    "realm", ["http://100.64.0.1/", "http://shop.test/", "file:///etc/passwd", "", "//x", "http://["]
)
def test_a_realm_that_is_no_https_url_is_not_an_answer(fake: MakeFake, realm: str) -> None:
    server = fake(guarded(lambda: f'Bearer realm="{realm}"'))
    assert asked_of(server) is None
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"token": 3}',
        b'{"token": ""}',
        b'{"token": "a b"}',
        b'{"token": "a\\r\\nX: y"}',
        b"[" * 60_000,
        b'{"token": "' + b"x" * 70_000 + b'"}',
        b'{"token": "T0ken"}' + b" " * 70_000,
    ],
    ids=lambda body: body[:20].decode(),
)
def test_a_token_that_is_none_is_not_sent(fake: MakeFake, body: bytes) -> None:
    tokens = fake(lambda asked: Reply(body=body))
    server = fake(guarded(lambda: f'Bearer realm="http://{tokens.host}/"'))
    assert asked_of(server) is None
    assert len(server.asked) == 1


@pytest.mark.parametrize("challenge", ["", "Bearer", "Negotiate", 'Digest realm="x"', "Bearer realm", "\x7f"])
def test_a_challenge_nobody_can_meet_is_not_an_answer(fake: MakeFake, challenge: str) -> None:
    assert asked_of(fake(guarded(lambda: challenge))) is None


def certificate(room: Path) -> Path:
    """A certificate for 127.0.0.1 that only who is given the file trusts."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (room / "server.pem").write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    (room / "trusted.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return room / "server.pem"


def test_a_realm_under_tls_is_asked_only_if_its_certificate_is_trusted(
    fake: MakeFake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate(tmp_path))
    tokens = fake(lambda asked: Reply(body=b'{"token": "T0ken"}'), tls=tls)
    server = fake(guarded(lambda: f'Bearer realm="https://{tokens.host}/"'))
    files = [auth_file(tmp_path, **{server.host: BASIC})]
    assert asked_of(server, files) is None
    assert tokens.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    assert asked_of(server, files) == GOOD


OVERLAY = """
import sys
sys.path[:0] = sys.argv[1:4]
from pathlib import Path
from test_registry import BASIC, Fake, Reply, asked_of, auth_file, guarded, manifest_reply
room = Path(sys.argv[4])
open_to_all = Fake(lambda asked: manifest_reply(), host="100.64.0.1")
private = Fake(guarded(lambda: 'Basic realm="shop"', f"Basic {BASIC}"), host="100.64.0.1")
tokens = Fake(lambda asked: Reply(body=b'{"token": "T0ken"}'), host="100.64.0.1")
bearing = Fake(guarded(lambda: f'Bearer realm="http://{tokens.host}/"'), host="100.64.0.1")
servers = [open_to_all, private, bearing]
files = [auth_file(room, **{server.host: BASIC for server in servers})]
answered = [bool(asked_of(server, files)) for server in servers]
print(answered, {asked.authorization for asked in private.asked}, tokens.asked)
for server in [*servers, tokens]:
    server.close()
"""


@pytest.mark.lab
def test_an_overlay_address_is_asked_without_tls_and_therefore_without_a_password(tmp_path: Path) -> None:
    """In a network of its own, where the overlay's address lies on loopback."""
    network = 'ip link set lo up && ip address add 100.64.0.1/32 dev lo && exec "$@"'
    here = Path(__file__).parent
    root = here.parents[1]
    python = [sys.executable, "-B", "-c", OVERLAY, str(root / "src"), str(here), str(root), str(tmp_path)]
    run = subprocess.run(
        ["unshare", "--net", "sh", "-c", network, "sh", *python],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout == "[True, False, False] {None} []\n", run.stdout + run.stderr


# ---- registries that take their time


class Dripper:
    """Accepts everybody, sends the beginning at once and the rest one byte at a time, for as long as it is let."""

    def __init__(self, at_once: bytes, dripping: bytes) -> None:
        self._at_once, self._dripping = at_once, dripping
        self._stopping = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listening.settimeout(0.05)
        self.host = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                caller, _ = self._listening.accept()
            except TimeoutError:
                continue
            self._threads.append(threading.Thread(target=self._drip, args=(caller,)))
            self._threads[-1].start()

    def _drip(self, caller: socket.socket) -> None:
        with caller:
            try:
                caller.sendall(self._at_once)
                while not self._stopping.wait(0.1):
                    caller.sendall(self._dripping)
            except OSError:
                return


DRIPS = {
    "says nothing": (b"", b""),
    "drips its status": (b"", b"H"),
    "drips a header": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "drips headers": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "drips 100 continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("kind", DRIPS)
def test_a_registry_that_takes_its_time_is_left_out_in_time_and_holds_up_no_other(fake: MakeFake, kind: str) -> None:
    before = threading.active_count()
    good = fake(lambda asked: manifest_reply())
    slow = Dripper(*DRIPS[kind])
    try:
        references = [f"{slow.host}/slow{number}:1" for number in range(30)] + [f"{good.host}/hello:1"]
        with in_time():
            assert OciRegistry(auth_files=()).resolve(references) == {f"{good.host}/hello:1": GOOD}
    finally:
        slow.close()
    good.close()
    wait_until(lambda: threading.active_count() <= before, "our threads end by themselves")


def test_a_body_that_drips_is_left_out_in_time(fake: MakeFake) -> None:
    start = f"HTTP/1.1 200 OK\r\nContent-Type: {OCI_MANIFEST}\r\nContent-Length: 1000\r\n\r\n".encode()
    slow = Dripper(start, b"x")  # the HEAD ends with its headers; the GET then waits for the body
    try:
        with in_time():
            assert OciRegistry(auth_files=()).resolve([f"{slow.host}/hello:1"]) == {}
    finally:
        slow.close()


def test_a_registry_that_sends_without_end_is_cut_off(fake: MakeFake) -> None:
    slow = Dripper(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000, b"X: y\r\n" * 10_000)
    try:
        with in_time():
            assert OciRegistry(auth_files=()).resolve([f"{slow.host}/hello:1"]) == {}
    finally:
        slow.close()


def test_a_registry_that_does_not_even_accept_is_left_out_in_time_and_holds_up_no_other(fake: MakeFake) -> None:
    """A full queue of connections on loopback looks like a host that swallows packets."""
    good = f"{fake(lambda asked: manifest_reply()).host}/hello:1"
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, ExitStack() as stack:
        port = listening.getsockname()[1]
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        with in_time():
            silent = [f"127.0.0.1:{port}/a:{tag}" for tag in range(40)]
            assert OciRegistry(auth_files=()).resolve([*silent, good]) == {good: GOOD}
