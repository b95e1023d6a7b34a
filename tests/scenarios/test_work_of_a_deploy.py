"""What one command costs, counted: requests to the hub, contents that the hub reads, parsing, verified pulses."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomli
from msgspec.structs import replace

from holdfast.adapters.hub_link.http.exchange import Line
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.cli import main
from holdfast.declared import toml_file
from holdfast.model.fleet import Fleet
from holdfast.model.report import PULSE_NAMESPACE
from holdfast.trust import own_signature
from tests.fleets.build import commit, mailbox, small_fleet
from tests.fleets.commands import Scene, changed, scene
from tests.fleets.directories import files
from tests.fleets.serving import Served, served
from tests.fleets.tools import HUB, Box


class Sweepable(MemoryStore):
    """Counts contents that are read many at a time, as a sweep does."""

    swept = 0

    def read_blobs(self, digests: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        wanted = list(digests)
        self.swept += len(wanted)
        return super().read_blobs(wanted)


class Counted:
    """One operator with a directory, and a hub over TLS that has applied revision 1 of it."""

    def __init__(self, hub: Served, store: Sweepable, fleet: Fleet, home: Path) -> None:
        self.hub, self.store, self.fleet, self.home = hub, store, fleet, home
        self.sent: list[str] = []
        self.parsed: list[str] = []

    def does(self, *words: str) -> None:
        """A command of its own process: a new connection, and nothing parsed yet."""
        self.sent.clear()
        self.parsed.clear()
        self.store.swept = 0
        toml_file.fleet_document.cache_clear()
        directory = self.home / "fleet"
        for path, text in files(self.fleet).items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(text)
        box = Box(self.home, self.hub.link())
        found = main.run([*words, "--fleet", str(directory), "--hub", HUB, "--yes"], box)
        assert found == 0, box.err.getvalue()

    def requests(self) -> list[str]:
        """Method and path; without what differs from run to run."""
        return [line.partition("?")[0] for line in self.sent]


@contextmanager
def counted(home: Path, patch: pytest.MonkeyPatch) -> Iterator[Counted]:
    fleet, store = small_fleet({"web": 1}, ("w1",)), Sweepable()
    hub = mailbox(store)
    commit(hub, fleet)
    with served(hub) as running:
        fleet = replace(fleet, settings=replace(fleet.settings, hub_key=running.hub_key))
        one = Counted(running, store, fleet, home)
        send, loads = Line.send, tomli.loads

        def sent(line: Line, request: bytes, deadline_s: float) -> None:
            heads = [part for part in request.split(b"\r\n") if part.endswith(b" HTTP/1.1")]
            one.sent += [" ".join(head.decode().split(" ")[:2]) for head in heads]
            send(line, request, deadline_s)

        def parsed(text: str) -> dict[str, Any]:
            one.parsed.append(text)
            return loads(text)

        patch.setattr(Line, "send", sent)
        patch.setattr(tomli, "loads", parsed)
        yield one


def test_a_deploy_fetches_the_revision_once_and_has_no_content_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted(tmp_path, monkeypatch) as one:
        one.does("apply", "--detach")  # pins the hub's key
        applied = one.hub.parts.hub.applied()
        assert applied is not None
        before = applied.table.entries["service.web"].digest
        one.fleet = changed(one.fleet, web=2)
        one.does("deploy", "web", "--detach")
        asked = ["GET /v1/applied", "GET /v1/observations", "GET /v1/nodes", f"GET /v1/blobs/{before}"]
        assert one.requests() == [*asked, "POST /v1/revisions", "GET /v1/status"]
        assert one.store.swept == 0


def test_a_deploy_that_waits_does_not_fetch_the_revision_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the revision that it sent; the head shows whether that is still the applied one."""
    with counted(tmp_path, monkeypatch) as one:
        one.does("apply", "--detach")
        one.fleet = changed(one.fleet, web=2)
        one.does("deploy", "web")
        after = one.requests().index("POST /v1/revisions") + 1
        assert one.requests()[after:] == ["GET /v1/status", "GET /v1/head", "GET /v1/nodes"]


def test_an_apply_without_changes_asks_three_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(tmp_path, monkeypatch) as one:
        one.does("apply", "--detach")
        one.does("apply", "--detach")
        assert one.requests() == ["GET /v1/applied", "GET /v1/observations", "GET /v1/nodes"]
        assert one.store.swept == 0


@pytest.mark.parametrize("words", [("apply", "--detach"), ("deploy", "web", "--detach"), ("plan",)], ids=lambda w: w[0])
def test_a_command_parses_every_file_once(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted(tmp_path, monkeypatch) as one:
        one.does("apply", "--detach")
        one.fleet = changed(one.fleet, web=2)
        one.does(*words)
        declared = {text.decode() for text in files(one.fleet).values()}
        assert sorted(text for text in one.parsed if text in declared) == sorted(declared)


def test_each_look_verifies_the_pulse_of_a_node_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[str] = []
    verify = own_signature.verify

    def noted(message: bytes, armoured: str, namespace: str, line: str) -> None:
        verified.append(namespace)
        verify(message, armoured, namespace, line)

    async def story(one: Scene) -> None:
        one.operator.fleet = changed(one.operator.fleet, web=2)
        one.says()
        looks: list[int] = []
        nodes = one.operator.held.nodes

        def looked() -> Any:
            looks.append(1)
            return nodes()

        monkeypatch.setattr(one.operator.held, "nodes", looked)
        monkeypatch.setattr(own_signature, "verify", noted)
        one.then(lambda: one.says(one.state("settling")), lambda: one.says(one.state("converged")))
        one.operator.does("deploy", "web")
        monkeypatch.undo()
        own = [namespace for namespace in verified if namespace == PULSE_NAMESPACE]
        assert len(looks) >= 3 and len(own) == len(looks)

    scene(tmp_path, story)
