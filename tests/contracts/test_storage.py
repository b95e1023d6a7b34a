"""Data directories: looked at and made freely, destroyed only with an order that names exactly them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.adapters.storage.directory import DirectoryStorage
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.adapters.storage.tree import COUNT_MAX
from holdfast.errors import Conflict, HoldfastError, Invalid, NotPermitted
from holdfast.model import canonical
from holdfast.model.fleet import Thresholds
from holdfast.model.order import FORMAT, NAMESPACE, Order, SignedOrder, VerifiedOrder
from holdfast.model.trust import of
from holdfast.ports.storage import Storage
from holdfast.trust.orders import verify
from tests.fleets.build import ALICE, ALICE_SIGNER, START_S

FLEET = "f" * 64
Fill = Callable[[str, dict[str, bytes]], None]


def proof(target: str = "data.web", node: str = "w1", action: str = "purge", number: int = 1) -> VerifiedOrder:
    """Made by the one who may: a real order, really signed."""
    arguments = canonical.encode({})
    name = sha256(f"{target}{node}{number}".encode()).hexdigest()[:32]
    order = Order(
        FORMAT, FLEET, name, node, target, action, canonical.digest(arguments), number, name, int(START_S),
        int(START_S) + 900,
    )  # fmt: skip
    content = canonical.encode(order)
    signed = SignedOrder(content, arguments, (ALICE_SIGNER.sign(content, NAMESPACE),))
    return verify(signed, FLEET, node, of((ALICE,), Thresholds()), START_S)


class Disk:
    def __init__(self, storage: Storage, fill: Fill, names: Callable[[], set[str]]) -> None:
        self.storage, self.fill, self.names = storage, fill, names


@pytest.fixture(params=["memory", "directory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "memory":
        memory = MemoryStorage("w1")
        return Disk(memory, lambda name, files: memory.contents.__setitem__(name, files), lambda: set(memory.contents))
    root = tmp_path / "srv"
    root.mkdir()

    def fill(name: str, files: dict[str, bytes]) -> None:
        (root / name).mkdir(exist_ok=True)
        for path, content in files.items():
            (root / name / path).write_bytes(content)

    return Disk(DirectoryStorage(str(root), "w1"), fill, lambda: set(os.listdir(root)))


def test_what_is_there_is_counted(disk: Disk) -> None:
    disk.fill("web", {"a": b"1", "b": b"22"})
    disk.fill("empty", {})
    web = disk.storage.directory("web")
    assert web is not None and (web.name, web.files, web.size_bytes) == ("web", 2, 3)
    empty = disk.storage.directory("empty")
    assert empty is not None and empty.files == 0
    assert disk.storage.directory("nothing") is None
    assert [found.name for found in disk.storage.directories()] == ["empty", "web"]


def test_making_twice_is_making_once(disk: Disk) -> None:
    made = disk.storage.create("web")
    assert made.files == 0
    disk.fill("web", {"a": b"1"})
    assert disk.storage.create("web").files == 1


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../etc", "Web", ".purging-x", "a\0", "x" * 41, "web\n"])
def test_a_name_is_a_name(disk: Disk, name: str) -> None:
    for act in (disk.storage.directory, disk.storage.create, disk.storage.set_aside, disk.storage.remove_empty):
        with pytest.raises(Invalid):
            act(name)
    with pytest.raises(Invalid):
        disk.storage.destroy(name, proof())


def test_only_what_is_empty_goes_without_an_order(disk: Disk) -> None:
    disk.fill("web", {"a": b"1"})
    disk.storage.create("empty")
    disk.storage.remove_empty("empty")
    disk.storage.remove_empty("empty")
    with pytest.raises(Conflict):
        disk.storage.remove_empty("web")
    assert disk.names() == {"web"}


def test_set_aside_loses_nothing(disk: Disk) -> None:
    for content in (b"1", b"2"):
        disk.fill("web", {"a": content})
        disk.storage.set_aside("web")
    assert disk.storage.directory("web") is None and len(disk.names()) == 2
    assert disk.storage.directories() == []
    with pytest.raises(HoldfastError):
        disk.storage.set_aside("web")


def test_an_order_destroys_what_it_names_and_nothing_else(disk: Disk) -> None:
    """I-02, style §6"""
    disk.fill("web", {"a": b"1"})
    disk.fill("db", {"b": b"2"})
    disk.storage.destroy("web", proof())
    disk.storage.destroy("web", proof())
    assert disk.names() == {"db"}


@pytest.mark.parametrize(
    "wrong",
    [proof("data.db"), proof(node="w2"), proof("service.web", action="restart"), proof("node.w1", action="ping")],
)
def test_an_order_for_something_else_destroys_nothing(disk: Disk, wrong: VerifiedOrder) -> None:
    disk.fill("web", {"a": b"1"})
    for act in (disk.storage.destroy, disk.storage.condemn):
        with pytest.raises(NotPermitted):
            act("web", wrong)
    assert disk.names() == {"web"}


def test_once_condemned_a_newer_directory_of_that_name_is_safe(disk: Disk) -> None:
    """A crash between condemning and destroying, and somebody made it anew meanwhile."""
    disk.fill("web", {"old": b"1"})
    disk.storage.condemn("web", proof())
    disk.storage.condemn("web", proof())
    assert disk.storage.condemned("web", proof()) and not disk.storage.condemned("web", proof(number=2))
    disk.storage.create("web")
    disk.fill("web", {"new": b"2"})
    disk.storage.destroy("web", proof())
    assert disk.names() == {"web"} and not disk.storage.condemned("web", proof())
    kept = disk.storage.directory("web")
    assert kept is not None and kept.files == 1


# ---- the real file system


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "srv").mkdir()
    yield tmp_path / "srv"


def test_links_are_taken_away_and_never_followed(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    (root / "web" / "inner").mkdir(parents=True)
    (root / "web" / "to-directory").symlink_to(outside)
    (root / "web" / "inner" / "to-file").symlink_to(outside / "precious")
    os.link(outside / "precious", root / "web" / "hard")
    os.mkfifo(root / "web" / "pipe")
    DirectoryStorage(str(root), "w1").destroy("web", proof())
    assert (outside / "precious").read_bytes() == b"x" and os.listdir(root) == []


def test_a_link_in_place_of_a_directory_or_of_the_root_is_refused(root: Path) -> None:
    real = root.parent / "real"
    (real / "web").mkdir(parents=True)
    (real / "web" / "precious").write_bytes(b"x")
    (root / "web").symlink_to(real / "web")
    storage = DirectoryStorage(str(root), "w1")
    with pytest.raises(NotPermitted):
        storage.destroy("web", proof())
    with pytest.raises(NotPermitted):
        storage.directory("web")
    assert storage.directories() == []
    (root.parent / "linked").symlink_to(real)
    with pytest.raises(NotPermitted):
        DirectoryStorage(str(root.parent / "linked"), "w1").destroy("web", proof())
    assert (real / "web" / "precious").exists()


@pytest.mark.parametrize("where", ["web", "web/inner", "web/a b"])
def test_a_mount_inside_is_somebody_elses_and_stops_everything(root: Path, where: str) -> None:
    """A bind mount of the same file system looks like any directory; deleting through it would be a loss elsewhere."""
    precious = root.parent / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"x")
    (root / where).mkdir(parents=True)
    if where != "web":
        (root / "web" / "own").write_bytes(b"y")
    script = (
        f"mount --bind {precious} '{root / where}' && exec {sys.executable} -c "
        "'import sys; from tests.contracts.test_storage import *\n"
        f'storage = DirectoryStorage("{root}", "w1")\n'
        'try: storage.destroy("web", proof())\n'
        "except NotPermitted: sys.exit(3)'"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
    assert (precious / "file").exists() and (root / "web").exists()


def test_a_very_deep_and_a_very_wide_tree_go_too(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    os.mkdir("web", dir_fd=here)
    at = os.open("web", os.O_RDONLY, dir_fd=here)
    for _ in range(1500):  # deeper than paths are long and handles are many
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    os.close(here)
    for number in range(3000):
        (root / "web" / f"f{number}").write_bytes(b"")
    storage = DirectoryStorage(str(root), "w1")
    found = storage.directory("web")
    assert found is not None and 0 < found.files <= COUNT_MAX
    storage.destroy("web", proof())
    assert os.listdir(root) == []


def test_a_missing_root_is_no_data_and_no_crash(tmp_path: Path) -> None:
    storage = DirectoryStorage(str(tmp_path / "nowhere"), "w1")
    assert storage.directories() == [] and storage.directory("web") is None
    storage.destroy("web", proof())
    with pytest.raises(HoldfastError):
        storage.create("web")
