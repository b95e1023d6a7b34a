"""A target for backup objects: memory, directories, a bucket, the hub's store and the two ends of a line between nodes
pass one suite (issues 15 and 16, A13)."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import msgspec
import obstore
import pytest

from holdfast.adapters.backup_target.hub import HubTarget
from holdfast.adapters.backup_target.local_dir import LocalDir
from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.adapters.backup_target.restic import Restic, ResticTarget
from holdfast.adapters.backup_target.s3 import S3Target
from holdfast.adapters.backup_target.store_directory import StoreDirectory
from holdfast.adapters.clock.system import SystemClock
from holdfast.adapters.fleet_link.signed_requests import SignedRequests
from holdfast.adapters.move_lines.spool import Files, Spool
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.errors import Conflict, Corrupt, Invalid, NotPermitted
from holdfast.hub.backups.store import BackupStore
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX
from holdfast.ports.backup_target import BackupTarget, StoredObject
from tests.fleets.backup_targets import (
    FLEET,
    HOSTILE,
    HOSTILE_PREFIXES,
    Damage,
    bytes_of,
    files_in,
    mounted,
    pack,
    prunable,
)
from tests.fleets.build import grown_mailbox
from tests.fleets.move_doors import SOURCE, open_door
from tests.fleets.seaweed import MINE, Seaweed, seaweed
from tests.fleets.serving import key_of, served

Test = Callable[[BackupTarget], Coroutine[Any, Any, None]]


class Scene:
    """One target: `make` opens it in the running loop, `damage` changes what is stored, `stored` is all there is."""

    def __init__(
        self,
        make: Callable[[], BackupTarget],
        damage: Damage,
        stored: Callable[[], dict[str, bytes]],
        fleet: str = FLEET,
        durable_id: str = "disk-1",
        many: int = 20,
    ) -> None:
        self.many = many
        self.make, self.damage, self.stored, self.fleet, self.durable_id = make, damage, stored, fleet, durable_id

    def run(self, test: Test) -> None:
        async def live() -> None:
            target = self.make()
            try:
                await test(target)
            finally:
                await target.close()

        asyncio.run(asyncio.wait_for(live(), 120))

    def pack(self, content: bytes, service: str = "web", generation: int = 1) -> str:
        return pack(content, self.fleet, service, generation)


def in_memory() -> Scene:
    target = MemoryTarget("disk-1")
    return Scene(lambda: target, target.objects.__setitem__, lambda: dict(target.objects))


def in_directory(place: Path) -> Scene:
    target = LocalDir(str(place), "disk-1")
    asyncio.run(target.attach())
    return Scene(
        lambda: LocalDir(str(place), "disk-1"),
        lambda key, content: (place / key).write_bytes(content),
        lambda: {key: content for key, content in files_in(place).items() if key != ".holdfast-target"},
    )


def in_bucket(server: Seaweed, folder: str) -> Scene:
    store = server.store()

    def make() -> S3Target:
        return S3Target(server.bucket(folder), MINE, "disk-1")

    asyncio.run(make().adopt())
    return Scene(
        make,
        lambda key, content: obstore.put(store, f"{folder}/{key}", content),
        lambda: {
            str(one["path"]).removeprefix(f"{folder}/"): bytes(obstore.get(store, one["path"]).bytes())
            for page in obstore.list(store, folder)
            for one in page
            if not str(one["path"]).endswith(".holdfast-target")
        },
    )


PASSWORD = b"password of a test"


def in_restic(place: Path, durable_id: str) -> Scene:
    restic = Restic(str(place), PASSWORD)

    def snapshots() -> dict[str, str]:
        found = msgspec.json.decode(asyncio.run(restic.run("snapshots", "--json")))
        return {one["paths"][0]: one["id"] for one in found}

    def dump(name: str) -> Coroutine[Any, Any, bytes]:
        return restic.run("dump", snapshots()[name], name)

    def damage(key: str, content: bytes) -> None:
        name = key.replace("/", "_")
        asyncio.run(restic.run("forget", snapshots()[f"/{name}"]))
        words = ("backup", "--stdin", "--stdin-filename", name, "--tag", "holdfast")
        asyncio.run(restic.run(*words, given=content))

    return Scene(
        lambda: ResticTarget(restic, durable_id),
        lambda key, content: _outside(damage, key, content),
        lambda: _outside(lambda: {_key(name): asyncio.run(dump(name)) for name in snapshots()}),
        durable_id=durable_id,
        many=3,
    )


def _key(name: str) -> str:
    return name[1:].replace("_", "/")


def _outside(function: Callable[..., Any], *arguments: Any) -> Any:
    """In a thread: the test has a running loop."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(function, *arguments).result(60)


def at_hub(place: Path, closing: ExitStack) -> Scene:
    store = BackupStore(StoreDirectory(str(place)), lambda key, content, node: None, lambda key: True)
    hub = closing.enter_context(served(grown_mailbox(1), backups=store))
    hub.joined("w1")

    def make() -> HubTarget:
        link = SignedRequests(hub.url, hub.hub_key, key_of("w1"), lambda: hub.fleet_id, SystemClock(), SystemRandom())
        return HubTarget(link, hub.fingerprint)

    return Scene(
        make,
        lambda key, content: (place / key).write_bytes(content),
        lambda: files_in(place),
        hub.fleet_id,
        hub.fingerprint,
    )


def at_node(place: Path, closing: ExitStack) -> Scene:
    """Over a line between two nodes, of which one hands `web` over to the other, in any epoch."""
    door = closing.enter_context(open_door(place, lambda key: {"web": ANY} if key == SOURCE.line else {}))
    return Scene(
        door.line, lambda key, content: (place / key).write_bytes(content), lambda: files_in(place), durable_id=""
    )


def in_spool(place: Path) -> Scene:
    return Scene(
        lambda: Spool(Files(str(place))),
        lambda key, content: (place / key).write_bytes(content),
        lambda: files_in(place),
        durable_id="",
    )


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """An empty one, and its id."""
    place = tmp_path_factory.mktemp("restic") / "repository"
    return place, asyncio.run(Restic(str(place), PASSWORD).create())


@pytest.fixture(params=["memory", "tmpfs", "ext4", "s3", "hub", "restic", "line", "spool"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as closing:
        if request.param == "memory":
            yield in_memory()
        elif request.param == "hub":
            yield at_hub(tmp_path / "backups", closing)
        elif request.param == "line":
            yield at_node(tmp_path / "moves", closing)
        elif request.param == "spool":
            yield in_spool(tmp_path / "moves")
        elif request.param == "restic":
            empty, durable_id = request.getfixturevalue("repository")
            yield in_restic(shutil.copytree(empty, tmp_path / "repository"), durable_id)
        elif request.param == "s3":
            yield in_bucket(request.getfixturevalue("s3"), f"folder/{tmp_path.name}")
        else:
            yield in_directory(closing.enter_context(mounted(tmp_path / "disk", "200M", request.param)))


# ---- the contract


def test_what_was_put_is_there_as_it_was(scene: Scene) -> None:
    async def test(target: BackupTarget) -> None:
        for content in (b"x", bytes_of("a", 5_000_000), bytes_of("most", OBJECT_BYTES_MAX)):
            key = scene.pack(content)
            assert await target.get(key) is None and await target.has([key]) == set()
            await target.put(key, content)
            assert await target.get(key) == content and await target.has([key]) == {key}

    scene.run(test)


def test_the_same_again_is_nothing_to_do(scene: Scene) -> None:
    async def test(target: BackupTarget) -> None:
        content = bytes_of("a", 2_000_000)
        for _ in range(3):
            await target.put(scene.pack(content), content)
        assert scene.stored() == {scene.pack(content): content}

    scene.run(test)


def test_the_same_object_from_many_at_once_is_there_once(scene: Scene) -> None:
    async def test(target: BackupTarget) -> None:
        contents = [bytes_of(f"{number}", 300_000) for number in range(min(scene.many, 4))]
        await asyncio.gather(*(target.put(scene.pack(one), one) for one in contents * min(scene.many, 4)))
        assert scene.stored() == {scene.pack(one): one for one in contents}

    scene.run(test)


def test_bytes_that_do_not_have_the_digest_of_their_key_are_not_stored(scene: Scene) -> None:
    async def test(target: BackupTarget) -> None:
        with pytest.raises(Corrupt) as refused:
            await target.put(scene.pack(b"one"), b"other")
        assert refused.value.code == "object_digest"
        for wrong in (bytes(OBJECT_BYTES_MAX + 1), b""):
            with pytest.raises(Invalid):
                await target.put(scene.pack(wrong), wrong)
        assert scene.stored() == {}

    scene.run(test)


def test_a_damaged_object_is_a_conflict_and_is_not_written_over(scene: Scene) -> None:
    async def test(target: BackupTarget) -> None:
        content = bytes_of("a")
        key = scene.pack(content)
        await target.put(key, content)
        damaged = b"?" + content[1:]
        scene.damage(key, damaged)
        with pytest.raises(Conflict) as refused:
            await target.put(key, content)
        assert refused.value.code == "object_damaged"
        assert scene.stored() == {key: damaged}
        assert await target.get(key) == damaged, "the caller compares the digest"

    scene.run(test)


def test_objects_are_listed_by_prefix_in_order(scene: Scene) -> None:
    async def test(target: BackupTarget) -> None:
        receipt = b'{"receipt":1}'
        keys = {
            scene.pack(b"1"): b"1",
            scene.pack(b"22"): b"22",
            scene.pack(b"333", generation=2): b"333",
            backup_key.sealed(scene.fleet, "web", 1, "manifests", b"m"): b"m",
            backup_key.sealed(scene.fleet, "web", 1, "keys", b"k"): b"k",
            backup_key.receipt(scene.fleet, "web", 1, receipt): receipt,
        }
        for key, content in keys.items():
            await target.put(key, content)
        above = f"{scene.fleet[:16]}/web/"
        for prefix in (above, above + "g1/", above + "g1/packs/", above + "g2/", above + "receipts/", above + "g3/"):
            wanted = [StoredObject(key, len(keys[key])) for key in sorted(keys) if key.startswith(prefix)]
            assert list(await target.list(prefix)) == wanted, prefix

    scene.run(test)


def test_many_keys_are_asked_for_at_once(scene: Scene) -> None:
    async def test(target: BackupTarget) -> None:
        contents = [bytes_of(f"{number}", 100) for number in range(30)]
        for one in contents[: scene.many]:
            await target.put(scene.pack(one), one)
        keys = [scene.pack(one) for one in contents] + [scene.pack(b"%d" % number) for number in range(2_500)]
        assert await target.has(keys) == {scene.pack(one) for one in contents[: scene.many]}
        assert await target.has([]) == set()

    scene.run(test)


def test_an_object_is_deleted_only_with_the_proof_about_it(scene: Scene) -> None:
    async def test(target: BackupTarget) -> None:
        one, other = scene.pack(b"1"), scene.pack(b"2")
        await target.put(one, b"1")
        await target.put(other, b"2")
        with pytest.raises(NotPermitted):
            await target.delete(one, prunable(other))
        assert await target.has([one, other]) == {one, other}
        for _ in range(2):
            await target.delete(one, prunable(one))
            assert await target.has([one, other]) == {other} and await target.get(one) is None
        await target.put(one, b"1")
        assert await target.get(one) == b"1"

    scene.run(test)


def test_a_hostile_key_reaches_nothing(scene: Scene, tmp_path: Path) -> None:
    """Refused by every verb, before anything outside is asked."""
    (tmp_path / "x").write_bytes(b"not yours")

    async def test(target: BackupTarget) -> None:
        kept = scene.pack(b"kept")
        await target.put(kept, b"kept")
        for text in HOSTILE:
            for call in (target.put(text, b"x"), target.get(text), target.has([kept, text])):
                with pytest.raises(Invalid):
                    await call
        for text in HOSTILE_PREFIXES:
            with pytest.raises(Invalid):
                await target.list(text)
        assert scene.stored() == {kept: b"kept"}
        assert (tmp_path / "x").read_bytes() == b"not yours"

    scene.run(test)


def test_a_look_says_that_it_is_attached_how_much_fits_and_which_one_it_is(scene: Scene) -> None:
    async def test(target: BackupTarget) -> None:
        state = await target.look()
        assert (state.state, state.reason, state.durable_id) == ("attached", "", scene.durable_id)
        assert state.free_bytes is None or state.free_bytes > OBJECT_BYTES_MAX

    scene.run(test)


def test_closing_twice_is_closing_once(scene: Scene) -> None:
    async def test(target: BackupTarget) -> None:
        await target.look()
        await target.close()
        await target.close()

    scene.run(test)
