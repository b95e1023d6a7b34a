"""The file of a running hub, made by a process of its own and fetched by the node of the hub: whole, and bounded."""

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.fleet_link.signed_requests import SignedRequests
from holdfast.adapters.hub_copy import http
from holdfast.adapters.hub_copy.http import NAME, HttpHubCopy
from holdfast.adapters.hub_copy.memory import MemoryHubCopy
from holdfast.adapters.hub_files.command import FOLDER, CommandedHubFile
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.errors import Conflict, Corrupt, Failed, HoldfastError, Unreachable
from holdfast.model.fleet import Node
from holdfast.ports.hub_copy import HubCopy
from holdfast.ports.hub_file_maker import FRESH_S, MadeHubFile
from tests.fleets.build import commit, mailbox, small_fleet
from tests.fleets.serving import ALICE, Served, key_of, parts_of, running
from tests.fleets.waiting import PATIENCE_S, wait_until

MIB = 1024 * 1024
CONTENT = os.urandom(9 * MIB + 5)


class Maker:
    """Gives a file out, after it said once that it is being made; `lie` is said to be its digest."""

    def __init__(self, content: bytes, lie: str = "", size: int = 0) -> None:
        self.content = content
        self.digest = lie or sha256(content).hexdigest()
        self.size = size or len(content)
        self.asked = 0

    def ask(self) -> MadeHubFile | None:
        self.asked += 1
        return MadeHubFile(self.digest, self.size) if self.asked > 1 else None

    def part(self, digest: str, first: int, at_most: int) -> bytes | None:
        return self.content[first : first + at_most] if digest == self.digest else None


@contextmanager
def hub_with(maker: Maker | None) -> Iterator[Served]:
    """Node w1 has the role hub, w2 has not."""
    mail = mailbox()
    fleet = small_fleet(nodes=("w1", "w2"))
    commit(mail, replace(fleet, nodes={**fleet.nodes, "w1": Node("w1", ("hub", "worker"))}))
    parts, store = parts_of(mail)
    hub = Served(replace(parts, own_file=maker), store)
    with running(hub):
        hub.joined("w1", ("hub", "worker"))
        hub.joined("w2")
        yield hub


def copy_of(hub: Served, place: Path, node: str = "w1", bytes_max: int = http.BYTES_MAX) -> HttpHubCopy:
    requests = SignedRequests(hub.url, hub.hub_key, key_of(node), lambda: hub.fleet_id, SystemClock(), SystemRandom())
    return HttpHubCopy(requests, str(place / "copy"), bytes_max)


@pytest.mark.parametrize("kind", ["http", "memory"])
def test_a_node_gets_one_file_in_a_directory_of_its_own_and_clears_it(kind: str, tmp_path: Path) -> None:
    def used(copy: HubCopy, top: Path) -> None:
        found = asyncio.run(copy.fetch())
        assert Path(found) == top and [path.read_bytes() for path in top.iterdir()] == [CONTENT]
        copy.clear()
        copy.clear()

    if kind == "memory":
        (tmp_path / NAME).write_bytes(CONTENT)
        memory = MemoryHubCopy()
        memory.top = str(tmp_path)
        used(memory, tmp_path)
        return
    with hub_with(Maker(CONTENT)) as hub:
        copy = copy_of(hub, tmp_path)
        used(copy, tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
        asyncio.run(copy.fetch())
        asyncio.run(copy.fetch())  # over what a killed agent left
        assert stat.S_IMODE((tmp_path / "copy" / NAME).stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("maker", "code"),
    [
        (Maker(CONTENT, lie="0" * 64), "hub_file_damaged"),
        (Maker(CONTENT, size=len(CONTENT) - 1), "hub_file_damaged"),
        (Maker(CONTENT, size=len(CONTENT) + 1), "hub_file_damaged"),
        (Maker(CONTENT, size=1 << 40), "hub_file_too_long"),
        (Maker(CONTENT, size=-1), "hub_file_too_long"),
    ],
)
def test_a_hub_that_lies_about_its_file_fills_no_disk(maker: Maker, code: str, tmp_path: Path) -> None:
    with hub_with(maker) as hub:
        copy = copy_of(hub, tmp_path)
        with pytest.raises(HoldfastError) as trouble:
            asyncio.run(copy.fetch())
        assert trouble.value.code == code
        assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= len(CONTENT)


@pytest.mark.parametrize("lie", ["../../v1/nodes", "é" * 64, "0" * 63, "0" * 64 + "\n", "\x1b[2J" + "0" * 60])
def test_a_digest_that_is_none_is_no_answer(lie: str, tmp_path: Path) -> None:
    """It becomes a part of an address that the node signs, and stands in a finding."""
    with hub_with(Maker(CONTENT, lie=lie)) as hub:
        with pytest.raises(HoldfastError) as trouble:
            asyncio.run(copy_of(hub, tmp_path).fetch())
        assert isinstance(trouble.value, Unreachable) and lie[:16] not in trouble.value.message
        assert not any(tmp_path.iterdir())


def test_a_file_is_fetched_only_if_the_disk_keeps_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FREE_BYTES_MIN", 1 << 60)
    with hub_with(Maker(CONTENT)) as hub, pytest.raises(Failed) as trouble:
        asyncio.run(copy_of(hub, tmp_path).fetch())
    assert trouble.value.code == "no_space"


def test_a_file_that_never_comes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other backups of this node wait meanwhile, and the owner of the hub chooses how long it takes."""
    monkeypatch.setattr(http, "FETCH_S", 2.0)
    never = Maker(CONTENT)
    monkeypatch.setattr(never, "ask", lambda: None)

    async def fetched(hub: Served) -> None:
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(HoldfastError, match="did not come within 2 s"):
                await copy_of(hub, tmp_path).fetch()

    with hub_with(never) as hub:
        asyncio.run(fetched(hub))


def test_only_the_node_of_the_hub_gets_it(tmp_path: Path) -> None:
    with hub_with(Maker(CONTENT)) as hub:
        with pytest.raises(HoldfastError) as trouble:
            asyncio.run(copy_of(hub, tmp_path, "w2").fetch())
        assert trouble.value.code == "not_the_hub"
        digest = sha256(CONTENT).hexdigest()
        for path in ("/v1/hub-file", f"/v1/hub-file/{digest}"):
            assert hub.signed("GET", path, None, ALICE).status == 403
            assert hub.signed("GET", path, None, hub.token()).status == 403


def test_a_hub_without_a_ledger_of_its_own_says_so(tmp_path: Path) -> None:
    with hub_with(None) as hub, pytest.raises(HoldfastError) as trouble:
        asyncio.run(copy_of(hub, tmp_path).fetch())
    assert trouble.value.code == "no_ledger"


# ---- making it

MAKES = """import sys, time
open(sys.argv[sys.argv.index("--to") + 1], "wb").write(b"sealed %d" % time.time_ns())"""
FAILS = """import sys; print('{"code":"no_recipients","message":"none","remedy":"x"}', file=sys.stderr); sys.exit(5)"""
CRASHES = "import os; os.abort()"
WAITS = "import time; time.sleep(600)"


def commanded(state: Path, code: str) -> tuple[CommandedHubFile, list[float]]:
    state.mkdir(exist_ok=True)
    (state / "ledger.db").write_bytes(b"a ledger")
    now = [0.0]
    return CommandedHubFile(str(state), lambda: now[0], (sys.executable, "-c", code)), now


def made_by(maker: CommandedHubFile) -> MadeHubFile:
    found: list[MadeHubFile] = []

    def is_there() -> bool:
        one = maker.ask()
        found.extend([one] if one is not None else [])
        return bool(found)

    wait_until(is_there, "the file is made")
    return found[0]


def test_a_file_is_made_once_a_minute_and_replaces_the_one_before(tmp_path: Path) -> None:
    maker, now = commanded(tmp_path / "hub", MAKES)
    first = made_by(maker)
    now[0] += FRESH_S - 1
    assert maker.ask() == first
    content = maker.part(first.digest, 0, MIB)
    assert content is not None and sha256(content).hexdigest() == first.digest and len(content) == first.size_bytes
    assert maker.part(first.digest, 7, 2) == content[7:9] and maker.part("0" * 64, 0, MIB) is None
    now[0] += 2
    second = made_by(maker)
    assert second.digest != first.digest and maker.part(first.digest, 0, MIB) is None
    assert len(os.listdir(tmp_path / "hub" / FOLDER)) == 1
    maker.close()
    assert os.listdir(tmp_path / "hub") == ["ledger.db"]


@pytest.mark.parametrize(
    ("code", "kind", "said"), [(FAILS, Conflict, "no_recipients"), (CRASHES, Failed, "hub_file_failed")]
)
def test_why_none_is_made_is_said_and_it_is_not_tried_in_a_loop(
    code: str, kind: type[HoldfastError], said: str, tmp_path: Path
) -> None:
    maker, now = commanded(tmp_path / "hub", code)
    with pytest.raises(kind) as trouble:
        made_by(maker)
    assert trouble.value.code == said
    with pytest.raises(kind):
        maker.ask()
    now[0] += 11
    assert maker.ask() is None, "it is tried again"
    maker.close()


def test_a_hub_that_ends_ends_the_process_too_and_one_that_starts_clears_up(tmp_path: Path) -> None:
    maker, _ = commanded(tmp_path / "hub", WAITS)
    assert maker.ask() is None and maker.ask() is None
    child = maker._child
    assert child is not None
    maker.close()
    assert child.poll() is not None
    (tmp_path / "hub" / FOLDER).mkdir()
    (tmp_path / "hub" / FOLDER / "hub.age").write_bytes(b"of a hub that was killed")
    commanded(tmp_path / "hub", WAITS)
    assert not (tmp_path / "hub" / FOLDER).exists()


def test_a_disk_that_is_almost_full_is_left_to_the_ledger(tmp_path: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", disk], check=True, timeout=60)
    try:
        maker, _ = commanded(disk / "hub", MAKES)
        with pytest.raises(Failed) as trouble:
            maker.ask()
        assert trouble.value.code == "no_space" and os.listdir(disk / "hub") == ["ledger.db"]
    finally:
        subprocess.run(["umount", disk], check=True, timeout=60)


def test_bytes_that_changed_on_the_hubs_disk_are_noticed(tmp_path: Path) -> None:
    maker = Maker(CONTENT)
    maker.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    with hub_with(maker) as hub, pytest.raises(Corrupt):
        asyncio.run(copy_of(hub, tmp_path).fetch())
