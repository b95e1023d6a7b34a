"""One suite for every way of telling a person: what is sent arrives, what does not arrive is said, nothing hangs."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from holdfast.adapters.notifier.apprise import AppriseNotifier
from holdfast.adapters.notifier.command import CommandNotifier
from holdfast.adapters.notifier.memory import MemoryNotifier
from holdfast.adapters.notifier.targets import Targets
from holdfast.adapters.notifier.webhook import WebhookNotifier
from holdfast.errors import HoldfastError, TryLater
from holdfast.model.alert import Alert
from holdfast.ports.notifier import Notifier
from tests.fleets.waiting import Stopwatch

ALARM = Alert(
    "node_silent", "alarm", "f" * 64, "node.w1", "w1 has been silent", "holdfast node show w1", 1_700_000_000.0
)
BACK = Alert("node_back", "recovery", "f" * 64, "node.w1", "w1 is back", "nothing to do", 1_700_000_100.0)
SECRET = "s3cr3t-path"
HERE = Targets(allowed=("127.0.0.0/8",))  # where these tests listen


class Ear:
    """A little HTTP server that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.paths: list[str] = []
        self.status = 204
        self.pause_s = 0.0

    @contextmanager
    def listening(self) -> Iterator[int]:
        ear = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                ear.paths.append(self.path)
                if self.path.endswith("/elsewhere"):
                    ear.heard.append(b"redirected")
                ear.heard.append(body)  # before the answer: whoever has that may look at once
                time.sleep(ear.pause_s)
                self.send_response(ear.status)
                if 300 <= ear.status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Silent."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join(60)
            server.server_close()


class Bench(Struct):
    """A notifier, what it delivered, and a way to make it fail."""

    notifier: Notifier
    delivered: Callable[[], list[str]]  # codes
    break_it: Callable[[], None]


def _codes(bodies: list[bytes]) -> list[str]:
    return [code for body in bodies for code in ("node_silent", "node_back") if code.encode() in body]


@pytest.fixture(params=["memory", "webhook", "apprise", "command"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "memory":
        memory = MemoryNotifier()
        broken = TryLater("it was made to fail", remedy="wait", code="alert_undelivered")
        yield Bench(memory, lambda: [a.code for a in memory.alerts], lambda: memory.troubles.append(broken))
        return
    if request.param == "command":
        out, flag = tmp_path / "heard", tmp_path / "broken"
        script = tmp_path / "tell"
        script.write_text(f"#!/bin/sh\n[ ! -e {flag} ] || exit 3\ncat >> {out}\n")
        script.chmod(0o755)
        command = CommandNotifier([str(script)])
        yield Bench(command, lambda: _codes(out.read_bytes().splitlines()) if out.exists() else [], flag.touch)
        return
    ear = Ear()
    with ear.listening() as port:

        def break_it() -> None:
            ear.status = 500

        made: Notifier
        if request.param == "webhook":
            made = WebhookNotifier("ops", f"http://127.0.0.1:{port}/{SECRET}", HERE)
        else:
            made = AppriseNotifier("ops", f"json://127.0.0.1:{port}/{SECRET}", HERE)
        yield Bench(made, lambda: _codes(ear.heard) if ear.status < 300 else [], break_it)


def test_an_alert_and_its_recovery_arrive_in_order(bench: Bench) -> None:
    """H-38."""

    async def main() -> None:
        await bench.notifier.send(ALARM)
        await bench.notifier.send(BACK)

    asyncio.run(main())
    assert bench.delivered() == ["node_silent", "node_back"]


def test_what_was_not_delivered_is_said_with_a_remedy_and_without_the_secret(bench: Bench) -> None:
    bench.break_it()
    with pytest.raises(HoldfastError) as trouble:
        asyncio.run(bench.notifier.send(ALARM))
    assert trouble.value.code == "alert_undelivered" and trouble.value.remedy
    assert SECRET not in trouble.value.message + trouble.value.remedy
    assert bench.delivered() == []


def test_a_webhook_gets_the_whole_alert_as_json() -> None:
    ear = Ear()
    with ear.listening() as port:
        asyncio.run(WebhookNotifier("ops", f"http://127.0.0.1:{port}/hook", HERE).send(ALARM))
    assert json.loads(ear.heard[0]) == {
        "code": "node_silent",
        "level": "alarm",
        "fleet": "f" * 64,
        "address": "node.w1",
        "message": "w1 has been silent",
        "remedy": "holdfast node show w1",
        "at_s": 1_700_000_000.0,
    }


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_webhook_follows_no_redirect(status: int) -> None:
    ear = Ear()
    ear.status = status
    with ear.listening() as port, pytest.raises(HoldfastError):
        asyncio.run(WebhookNotifier("ops", f"http://127.0.0.1:{port}/hook", HERE).send(ALARM))
    assert ear.paths == ["/hook"]


def test_nobody_waits_for_ever() -> None:
    """Bounded in time, whatever the other side does; a command takes its children with it."""
    ear = Ear()
    ear.pause_s = 2.0
    asked = Stopwatch()
    with ear.listening() as port:
        with pytest.raises(HoldfastError, match="no answer"):
            asyncio.run(WebhookNotifier("ops", f"http://127.0.0.1:{port}/", HERE, 0.2).send(ALARM))
        assert asked.within(1.5)
    endless = CommandNotifier([sys.executable, "-c", "import time; time.sleep(60)"], 0.5)
    watch = Stopwatch()
    with pytest.raises(HoldfastError, match="longer than"):
        asyncio.run(endless.send(ALARM))
    assert watch.within(5)


def test_what_cannot_be_reached_or_started_is_an_ordinary_failure(tmp_path: Path) -> None:
    closed: list[Notifier] = [
        WebhookNotifier("ops", "http://127.0.0.1:1/x", HERE),
        WebhookNotifier("ops", "http://no-such-host.invalid/x", HERE),
        AppriseNotifier("ops", "json://127.0.0.1:1/x", HERE),
        AppriseNotifier("ops", "no-such-service://x", HERE),
        CommandNotifier([str(tmp_path / "missing")]),
        CommandNotifier([str(tmp_path)]),
    ]
    for notifier in closed:
        with pytest.raises(HoldfastError) as trouble:
            asyncio.run(notifier.send(ALARM))
        assert trouble.value.remedy


def test_a_command_that_does_not_read_is_no_trouble() -> None:
    asyncio.run(CommandNotifier(["true"]).send(ALARM))
