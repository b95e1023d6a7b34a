"""A bucket as a target when things go wrong: no marker, wrong credentials, a server that is gone or careless."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from aiohttp import web

from holdfast.adapters.backup_target import marker
from holdfast.adapters.backup_target.s3 import Credentials, S3Target, credentials
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid, NotPermitted, TryLater
from holdfast.model.backup_key import OBJECT_BYTES_MAX
from holdfast.model.storage_target import Bucket
from tests.fleets.backup_targets import bytes_of, pack, prunable
from tests.fleets.seaweed import BUCKET, MINE, Seaweed, seaweed
from tests.fleets.waiting import Stopwatch, wait_until

ID, OBJECT = "bucket-1", bytes_of("object", 50_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as found:
        yield found


def do(call: Any) -> Any:
    return asyncio.run(asyncio.wait_for(call, 100))


def refused(call: Any, family: type[HoldfastError], code: str) -> None:
    with pytest.raises(family) as found:
        do(call)
    assert found.value.code == code, found.value.message


def test_a_bucket_without_the_marker_is_missing_and_gets_nothing(server: Seaweed) -> None:
    target = S3Target(server.bucket("unmarked"), MINE, ID)
    state = do(target.look())
    assert state.state == "missing" and ".holdfast-target" in state.reason
    refused(target.put(pack(OBJECT), OBJECT), TryLater, "target_missing")
    refused(target.delete(pack(OBJECT), prunable(pack(OBJECT))), TryLater, "target_missing")
    assert [one for page in obstore.list(server.store(), "unmarked") for one in page] == []


def test_another_target_in_its_place_is_named(server: Seaweed) -> None:
    do(S3Target(server.bucket("marked"), MINE, ID).adopt())
    do(S3Target(server.bucket("marked"), MINE, ID).adopt())
    other = S3Target(server.bucket("marked"), MINE, "bucket-2")
    state = do(other.look())
    assert (state.state, state.durable_id) == ("missing", ID)
    refused(other.put(pack(OBJECT), OBJECT), TryLater, "target_missing")
    refused(other.adopt(), Conflict, "other_target")
    assert do(S3Target(server.bucket("marked"), MINE, ID).look()).state == "attached"


def test_folders_of_one_bucket_are_targets_of_their_own(server: Seaweed) -> None:
    one, two = (S3Target(server.bucket(name), MINE, name) for name in ("one", "two"))
    for target in (one, two):
        do(target.adopt())
    do(one.put(pack(OBJECT), OBJECT))
    assert do(two.get(pack(OBJECT))) is None and do(two.has([pack(OBJECT)])) == set()
    assert list(do(two.list("f" * 16 + "/"))) == [] and len(do(one.list("f" * 16 + "/"))) == 1


@pytest.mark.parametrize("mine", [Credentials("unknown", "wrong"), Credentials(MINE.access_key_id, "wrong")])
def test_wrong_credentials_are_said_to_be_so(server: Seaweed, mine: Credentials) -> None:
    do(S3Target(server.bucket("locked"), MINE, ID).adopt())
    target = S3Target(server.bucket("locked"), mine, ID)
    state = do(target.look())
    assert state.state == "refused" and "it answers 403" in state.reason
    refused(target.put(pack(OBJECT), OBJECT), NotPermitted, "target_refused")
    refused(target.get(pack(OBJECT)), NotPermitted, "target_refused")


def stopped(pid: int) -> bool:
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def test_a_server_that_is_gone_is_missing_within_five_seconds_and_used_again_when_it_is_back_h49(
    server: Seaweed,
) -> None:
    target = S3Target(server.bucket("stopped"), MINE, ID)
    do(target.adopt())
    server.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: stopped(server.process.pid), "all its threads stand still")
        watch = Stopwatch()
        state = do(target.look())
        assert state.state == "missing" and watch.within(5)
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert do(target.look()).state == "attached"
    do(target.put(pack(OBJECT), OBJECT))
    nowhere = S3Target(Bucket(endpoint="http://127.0.0.1:9", name=BUCKET), MINE, ID)
    watch = Stopwatch()
    assert do(nowhere.look()).state == "missing" and watch.within(5)


def test_a_server_that_ignores_conditions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As rclone's: it writes over what is there."""

    async def live() -> None:
        runner = web.ServerRunner(web.Server(lambda request: _answer(request)))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        with pytest.raises(NotPermitted) as found:
            await S3Target(Bucket(endpoint=f"http://127.0.0.1:{port}", name=BUCKET), MINE, ID).adopt()
        assert "If-None-Match" in found.value.message
        await runner.cleanup()

    do(live())


async def _answer(request: web.BaseRequest) -> web.Response:
    await request.read()
    return web.Response(headers={"ETag": '"x"'})


@pytest.mark.parametrize(
    ("status", "code", "family", "told"),
    [
        (507, "InsufficientStorage", Failed, "no_space"),
        (400, "QuotaExceeded", Failed, "no_space"),
        (403, "AccessDenied", NotPermitted, "target_refused"),
        (400, "MalformedXML", TryLater, "target_missing"),
    ],
)
def test_what_a_server_answers_to_a_put_becomes_the_error_of_a_target(
    status: int, code: str, family: type[HoldfastError], told: str
) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        if request.method == "GET":
            about = {"ETag": '"x"', "Last-Modified": "Wed, 18 Nov 2026 01:00:00 GMT"}
            return web.Response(body=marker.write(marker.Marker(ID)), headers=about)
        return web.Response(status=status, text=f"<Error><Code>{code}</Code></Error>")

    async def live() -> None:
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        bucket = Bucket(endpoint=f"http://127.0.0.1:{runner.addresses[0][1]}", name=BUCKET)
        with pytest.raises(family) as found:
            await S3Target(bucket, MINE, ID).put(pack(OBJECT), OBJECT)
        assert found.value.code == told and str(status) in found.value.message
        await runner.cleanup()

    do(live())


def test_the_environment_of_the_process_gives_no_credentials(server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    do(S3Target(server.bucket("environment"), MINE, ID).adopt())
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", MINE.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", MINE.secret_access_key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert do(S3Target(server.bucket("environment"), Credentials("other", "x"), ID).look()).state == "refused"
    assert do(S3Target(server.bucket("environment"), MINE, ID).look()).state == "attached"


def test_a_call_leaves_the_loop_free(server: Seaweed) -> None:
    target = S3Target(server.bucket("free"), MINE, ID)
    content = bytes_of("large", OBJECT_BYTES_MAX)

    async def live() -> float:
        await target.adopt()
        longest = 0.0

        async def tick() -> None:
            nonlocal longest
            while True:
                began_s = time.monotonic()
                await asyncio.sleep(0.005)
                longest = max(longest, time.monotonic() - began_s)

        ticking = asyncio.ensure_future(tick())
        await target.put(pack(content), content)
        assert await target.get(pack(content)) == content
        ticking.cancel()
        return longest

    assert do(live()) < 1.0


@pytest.mark.parametrize(
    "text",
    [
        b"AWS_ACCESS_KEY_ID=a\nAWS_SECRET_ACCESS_KEY=b/c=\n",
        b"# mine\nexport AWS_ACCESS_KEY_ID=a\nexport AWS_SECRET_ACCESS_KEY='b/c='\nAWS_SESSION_TOKEN=",
        b'AWS_SECRET_ACCESS_KEY="b/c="\r\nAWS_ACCESS_KEY_ID = a\r\nAWS_ROLE=x',
    ],
)
def test_credentials_are_lines_as_in_an_env_file(text: bytes) -> None:
    assert credentials(text) == Credentials("a", "b/c=")
    assert credentials(text + b"\nAWS_REGION=eu-1\n") == Credentials("a", "b/c=", region="eu-1")


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"AWS_ACCESS_KEY_ID=a", b"a:b", b"AWS_SECRET_ACCESS_KEY=b"])
def test_credentials_that_lack_something_are_refused_and_not_repeated(text: bytes) -> None:
    with pytest.raises(Invalid) as found:
        credentials(text)
    assert found.value.code == "target_credentials" and "=b" not in found.value.message


@pytest.mark.parametrize(
    ("endpoint", "name", "prefix"),
    [
        ("ftp://x", BUCKET, ""),
        ("https://a b", BUCKET, ""),
        ("https://user:pass@host", BUCKET, ""),
        ("https://host/path", BUCKET, ""),
        ("https://host", "Back", ""),
        ("https://host", "a/b", ""),
        ("https://host", "..", ""),
        ("https://host", BUCKET, "/x"),
        ("https://host", BUCKET, "x/"),
        ("https://host", BUCKET, "a/../b"),
        ("https://host", BUCKET, "a b"),
    ],
)
def test_an_address_that_is_none_is_refused(endpoint: str, name: str, prefix: str) -> None:
    with pytest.raises(Invalid):
        S3Target(Bucket(endpoint=endpoint, name=name, prefix=prefix), MINE, ID)


ENDING = """
import atexit, runpy, sys
atexit.register(print, "the interpreter ends")
if sys.argv.pop(1) == "with":
    import obstore
sys.argv[0] = "holdfast"
runpy.run_module("holdfast", run_name="__main__")
"""


@pytest.mark.parametrize(("library", "ends"), [("with", False), ("without", True)])
def test_a_command_that_used_the_library_ends_before_threads_of_it_can_abort_the_interpreter(
    library: str, ends: bool
) -> None:
    """Seen as an abort after a command had said all, in 4 of 57 runs."""
    done = subprocess.run(
        [sys.executable, "-c", ENDING, library, "version"], capture_output=True, text=True, timeout=60
    )
    assert "holdfast" in done.stdout
    assert ("the interpreter ends" in done.stdout) == ends
