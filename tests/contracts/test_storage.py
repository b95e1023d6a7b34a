"""Data directories: looked at and made freely, destroyed only with an order that names exactly them."""

import ctypes
import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.storage import blocks, copying, restoring, tree
from holdfast.adapters.storage.directory import COUNTED_FOR_S, DirectoryStorage
from holdfast.adapters.storage.memory import MemoryStorage
from holdfast.adapters.storage.tree import COUNT_MAX
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid, NotPermitted, SignatureRequired
from holdfast.gate.copies import may_discard, may_dispose, may_fetch, may_place, may_receive, may_restore
from holdfast.gate.decide import Park
from holdfast.model import canonical
from holdfast.model.fleet import Thresholds
from holdfast.model.order import FORMAT, NAMESPACE, Order, SignedOrder, VerifiedOrder
from holdfast.model.proven_address import ProvenAddress
from holdfast.model.trust import of
from holdfast.ports.allowed import Allowed
from holdfast.ports.storage import (
    Checkpoint,
    DataDirectory,
    Discardable,
    Disposable,
    Placeable,
    Purgeable,
    Receivable,
    Restorable,
    Returnable,
)
from holdfast.trust.orders import verify
from tests.contracts.test_filling import D, F, archive
from tests.fleets.build import ALICE, ALICE_SIGNER, START_S
from tests.fleets.doors import OpenStorage
from tests.fleets.handles import none_left_open
from tests.fleets.lives import pulse_of

FLEET = "f" * 64
KEY = MemoryIdentityKey(sha256(b"key of w1").digest())
Fill = Callable[[str, dict[str, bytes]], None]


def proof(
    target: str = "data.web", node: str = "w1", action: str = "purge", number: int = 1, **given: str
) -> VerifiedOrder:
    """Made by the one who may: a real order, really signed."""
    arguments = canonical.encode(given)
    name = sha256(f"{target}{node}{number}".encode()).hexdigest()[:32]
    order = Order(
        FORMAT, FLEET, name, node, target, action, canonical.digest(arguments), number, name, int(START_S),
        int(START_S) + 900, pulse=pulse_of(FLEET, node, KEY, START_S - 5),
    )  # fmt: skip
    content = canonical.encode(order)
    signed = SignedOrder(content, arguments, (ALICE_SIGNER.sign(content, NAMESPACE),))
    return verify(signed, FLEET, node, of((ALICE,), Thresholds()), START_S)


def discardable(checkpoint: Checkpoint) -> Discardable:
    """Made by the one who may: the agent marked it as scratch, so the gate lets it go."""
    journal = MemoryJournal()
    journal.note_made(checkpoint.path, "op", scratch=True)
    permitted = may_discard(journal, checkpoint, "w1")
    assert isinstance(permitted, Discardable)
    return permitted


def disposable(service: str, purge: str) -> Disposable:
    """Made by the one who may: an order to destroy the data now."""
    permitted = may_dispose(service, purge, "w1", proof(f"data.{service}", number=8, now="yes"))
    assert isinstance(permitted, Disposable)
    return permitted


def open_storage(root: Path) -> Any:
    return OpenStorage(DirectoryStorage(str(root), "w1"), str(root))


class Disk:
    """`root` is where the storage says it is; `read` gives the content of a file in a checkpoint; `make` makes an empty
    directory inside another one; `arrive` writes files of a copy from elsewhere."""

    def __init__(
        self,
        storage: Any,
        fill: Fill,
        names: Callable[[], set[str]],
        root: str,
        read: Callable[[str, str, str], bytes],
        make: Callable[[str], object],
        arrive: Callable[[str, str, dict[str, bytes]], object],
    ) -> None:
        self.storage, self.fill, self.names, self.root, self.read, self.make = storage, fill, names, root, read, make
        self.arrive = arrive


@pytest.fixture(params=["memory", "directory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "memory":
        memory = MemoryStorage("w1")
        return Disk(
            OpenStorage(memory, "/memory"),
            lambda name, files: memory.contents.__setitem__(name, files),
            lambda: set(memory.contents),
            "/memory",
            lambda service, id, file: memory.copies[service, id][1][file],
            lambda path: memory.contents[path.split("/")[0]].setdefault(path.split("/")[1] + "/", b""),
            lambda service, id, files: memory.incoming[service, id].update(files),
        )
    root = tmp_path / "srv"
    root.mkdir()

    def fill(name: str, files: dict[str, bytes]) -> None:
        (root / name).mkdir(exist_ok=True)
        for path, content in files.items():
            (root / name / path).parent.mkdir(exist_ok=True)
            (root / name / path).write_bytes(content)

    def read(service: str, id: str, file: str) -> bytes:
        return (root / ".checkpoints" / service / id / file).read_bytes()

    return Disk(
        open_storage(root),
        fill,
        lambda: set(os.listdir(root)),
        str(root),
        read,
        lambda path: (root / path).mkdir(),
        lambda service, id, files: fill(f".checkpoints/{service}/.incoming-{id}", files),
    )


def test_a_permission_is_good_for_its_act_and_its_path_alone(disk: Disk) -> None:
    disk.fill("web", {"file": b"1"})
    port, path, other = disk.storage.inner, f"{disk.root}/web/book", f"{disk.root}/web/more"
    for act, thing in (("START", path), ("SET_ASIDE", path), ("MOUNT", other)):
        with pytest.raises(NotPermitted, match="does not permit"):
            port.volume("web", "book", Allowed(act, thing))
        with pytest.raises(NotPermitted, match="does not permit"):
            port.host_path("web", path, Allowed(act, thing))
    for act, thing in (("MOUNT", "data.web"), ("SET_ASIDE", "data.db")):
        with pytest.raises(NotPermitted, match="does not permit"):
            port.set_aside("web", Allowed(act, thing))
    assert disk.names() == {"web"} and disk.storage.content("web/book") is None


def test_what_is_there_is_counted(disk: Disk) -> None:
    disk.fill("web", {"a": b"1", "b": b"22"})
    disk.fill("empty", {})
    web = disk.storage.directory("web")
    assert web is not None and (web.name, web.files, web.size_bytes) == ("web", 2, 3)
    empty = disk.storage.directory("empty")
    assert empty is not None and empty.files == 0
    assert disk.storage.directory("nothing") is None
    assert [found.name for found in disk.storage.directories()] == ["empty", "web"]


def test_a_directory_is_no_file_and_not_nothing(disk: Disk) -> None:
    """People read how many files there are; whether nothing is there decides what may go."""
    disk.storage.volume("bare", "files")
    bare = disk.storage.directory("bare")
    assert bare is not None and (bare.files, bare.entries) == (0, 1)
    disk.fill("web", {"a": b"1"})
    disk.storage.volume("web", "files")
    web = disk.storage.directory("web")
    assert web is not None and (web.files, web.entries) == (1, 2)


def test_the_content_of_a_volume_is_counted_and_named(disk: Disk) -> None:
    assert disk.storage.content("web") is None and disk.storage.content("web/files") is None
    disk.storage.volume("web", "files")
    empty = disk.storage.content("web/files")
    assert empty is not None and (empty.entries, empty.names, empty.path) == (0, (), f"{disk.root}/web/files")
    disk.fill("web", {"files/b": b"22", "files/a": b"1", "elsewhere": b"333"})
    full = disk.storage.content("web/files")
    assert full is not None and (full.files, full.size_bytes, full.entries, full.names) == (2, 3, 2, ("a", "b"))
    file = disk.storage.content("web/elsewhere")
    assert file is not None and (file.files, file.size_bytes, file.entries) == (1, 3, 1)
    whole = disk.storage.content("web")
    assert whole is not None and whole.files == 3


def test_a_passport_is_kept_beside_the_data_and_no_container_gets_it(disk: Disk) -> None:
    assert disk.storage.passport("web/files") is None
    for text in (b"one", b"two"):
        disk.storage.keep_passport("web/files", text)
    deep = "web/" + "d" * 300
    for place in ("web", deep, "db/files"):
        disk.storage.keep_passport(place, place.encode())
    assert disk.storage.passport("web/files") == b"two"
    assert disk.storage.passport("web") == b"web" and disk.storage.passport(deep) == deep.encode()
    assert disk.storage.directories() == []
    with pytest.raises(NotPermitted):
        disk.storage.host_path("web", f"{disk.root}/.passports")


def test_checkpoints_and_passports_go_with_the_order_that_purges_the_data_n11(disk: Disk) -> None:
    for name in ("web", "db"):
        disk.fill(name, {"a": b"1"})
        disk.storage.keep_passport(f"{name}/files", b"text")
        disk.storage.checkpoint(name, "one", 1.0)
    with pytest.raises(SignatureRequired):
        disk.storage.condemn("db", proof())
    for _ in range(2):
        disk.storage.condemn("web", proof())
    assert [(one.service, one.id) for one in disk.storage.checkpoints()] == [("db", "one")]
    assert disk.storage.passport("web/files") is None and disk.storage.passport("db/files") == b"text"
    assert disk.storage.aside("web", proof().order.id).startswith(f"{disk.root}/.purging-")
    disk.storage.destroy("web", proof(now="yes"))
    assert disk.storage.set_aside_by("web") == []
    assert [name for name in disk.names() if "purging" in name] == []
    assert disk.storage.passport("db/files") == b"text" and len(disk.storage.checkpoints()) == 1


def test_what_was_purged_comes_back_whole_n11(disk: Disk) -> None:
    disk.fill("web", {"a": b"1"})
    disk.storage.keep_passport("web/files", b"text")
    disk.storage.checkpoint("web", "one", 1.0)
    disk.storage.condemn("web", proof())
    (purge,) = disk.storage.set_aside_by("web")
    (aside,) = disk.storage.asides()
    assert (aside.service, aside.order, aside.path) == ("web", purge, disk.storage.aside("web", purge))
    assert (aside.size_bytes, aside.files, aside.checkpoints) == (1, 1, 1) and aside.checkpoints_bytes >= 1
    assert purge == proof().order.id and disk.storage.set_aside_by("we") == []
    back = proof(action="restore-retired", number=2, purge=purge)
    with pytest.raises(SignatureRequired):
        disk.storage.bring_back("web", purge, proof())
    disk.fill("web", {"new": b"2"})
    with pytest.raises(Conflict):
        disk.storage.bring_back("web", purge, back)
    disk.storage.condemn("web", proof(number=3))
    disk.storage.create("web")  # an empty one is in the way of nothing
    disk.storage.checkpoint("web", "two", 2.0)
    disk.storage.keep_passport("web/files", b"of the empty one")
    for _ in range(2):
        disk.storage.bring_back("web", purge, back)
    assert [one.id for one in disk.storage.checkpoints()] == ["one", "two"]
    assert disk.read("web", "one", "a") == b"1" and disk.storage.passport("web/files") == b"text"
    found = disk.storage.content("web")
    assert found is not None and found.names == ("a",)
    assert disk.storage.set_aside_by("web") == [proof(number=3).order.id]


def test_passports_that_were_purged_without_data_do_not_replace_those_of_newer_data_n11(disk: Disk) -> None:
    """Nor do they vouch for a directory that was made since without one."""
    for place in ("web/files", "web/more"):
        disk.storage.keep_passport(place, b"of data that was lost")
    disk.storage.condemn("web", proof())
    (purge,) = disk.storage.set_aside_by("web")
    disk.fill("web", {"files/new": b"2", "more/by-hand": b"3"})
    disk.storage.keep_passport("web/files", b"of the newer data")
    for _ in range(2):
        disk.storage.bring_back("web", purge, proof(action="restore-retired", number=2, purge=purge))
    assert disk.storage.passport("web/files") == b"of the newer data" and disk.storage.passport("web/more") is None
    assert disk.storage.set_aside_by("web") == [] and [name for name in disk.names() if "purging" in name] == []


def test_what_an_earlier_purge_set_aside_is_deleted_by_its_id_n11(disk: Disk) -> None:
    for number in (1, 2):
        disk.fill("web", {"a": b"1"})
        disk.storage.checkpoint("web", f"c{number}", 1.0)
        disk.storage.condemn("web", proof(number=number))
    kept = proof(number=2).order.id
    for _ in range(2):
        disk.storage.dispose(disposable("web", proof(number=1).order.id))
    assert disk.storage.set_aside_by("web") == [kept]
    assert [name for name in disk.names() if proof(number=1).order.id in name] == []


# ---- putting a checkpoint in the place of the data


DIGEST = "1234567890abcdef" * 4


def receivable(service: str = "web", digest: str = DIGEST) -> Receivable:
    order = proof(target=f"data.{service}", action="fetch-backup", number=8, backup=digest)
    made = may_fetch(digest, "w1", order)
    assert isinstance(made, Receivable)
    return made


def test_a_copy_from_elsewhere_is_no_checkpoint_until_it_is_complete_and_then_replaces_data(disk: Disk) -> None:
    disk.fill("web", {"book/a": b"now", "cache/x": b"1"})
    storage, may = disk.storage, receivable()
    storage.receive(may)
    disk.arrive("web", may.id, {"book/half": b"1"})
    assert storage.checkpoints() == [], "the sender was killed"
    storage.receive(may)
    disk.arrive("web", may.id, {"book/a": b"from elsewhere"})
    made = storage.received(may, 7.0, ["cache"])
    assert (made.service, made.id, made.made_s, made.off, made.files) == ("web", may.id, 7.0, ("cache",), 1)
    assert storage.received(may, 9.0) == made and storage.checkpoints() == [made]
    put_back = restorable(storage, may.id)
    storage.exchange(put_back, storage.stage(put_back), 8.0)
    assert text(disk, "book/a") == b"from elsewhere" and text(disk, "cache/x") == b"1", "what it does not hold stays"


def test_a_volume_is_made_in_a_copy_from_elsewhere_and_what_is_dropped_is_not_in_it(disk: Disk) -> None:
    storage, may = disk.storage, receivable()
    top = storage.receive(may)
    disk.arrive("web", may.id, {".dump": b"1", "book/a": b"2", "cache/x": b"3"})
    assert storage.make_received(may, "book", None, "") == f"{top}/book", "one that is there stays"
    assert storage.make_received(may, "base", None, "") == f"{top}/base"
    with pytest.raises(Invalid):
        storage.make_received(may, "../base", None, "")
    made = storage.received(may, 7.0, ["cache"], [".dump", "cache", "never"])
    assert made.files == 1 and made.size_bytes == 1
    put_back = restorable(storage, may.id)
    storage.exchange(put_back, storage.stage(put_back), 8.0)
    assert text(disk, "book/a") == b"2" and disk.storage.content("web/base") is not None
    assert disk.storage.content("web/.dump") is None and disk.storage.content("web/cache") is None


def moved_here(disk: Disk, present: DataDirectory | None = None) -> tuple[Receivable, Placeable]:
    """Made by the one who may: a revision that moves the service here."""
    by = ProvenAddress(7, "service.web")
    copy = may_receive("web", 2, "w1", by)
    assert isinstance(copy, Receivable)
    allowed = may_place(copy, present, "w1", by)
    assert isinstance(allowed, Placeable)
    return copy, allowed


def test_a_copy_that_moves_here_goes_on_after_a_cut_and_becomes_the_data_in_one_step(disk: Disk) -> None:
    storage, (copy, allowed) = disk.storage, moved_here(disk)
    assert storage.resume(copy) is None
    top = storage.receive(copy)
    disk.arrive("web", copy.id, {"book/a": b"1", ".dump": b"2"})
    assert storage.resume(copy) == top and storage.directory("web") is None
    storage.take_in(allowed, [".dump"])
    assert storage.resume(copy) is None and storage.checkpoints() == []
    assert text(disk, "book/a") == b"1" and storage.content("web/.dump") is None
    storage.take_in(allowed, [".dump"])
    assert text(disk, "book/a") == b"1", "done again: nothing more"


def test_a_copy_that_moves_here_does_not_replace_data(disk: Disk) -> None:
    storage, (copy, allowed) = disk.storage, moved_here(disk)
    storage.receive(copy)
    disk.arrive("web", copy.id, {"book/a": b"1"})
    disk.fill("web", {"book/a": b"mine"})
    with pytest.raises(Conflict) as found:
        storage.take_in(allowed)
    assert found.value.code == "data_present" and text(disk, "book/a") == b"mine"
    assert storage.resume(copy) is not None, "it can be tried again"
    assert isinstance(may_place(copy, storage.directory("web"), "w1", ProvenAddress(7, "service.web")), Park)


def test_without_a_copy_and_without_data_nothing_is_said_to_have_moved(disk: Disk) -> None:
    _, allowed = moved_here(disk)
    with pytest.raises(Failed) as found:
        disk.storage.take_in(allowed)
    assert found.value.code == "not_found"


def test_a_volume_that_a_copy_from_elsewhere_lacks_begins_with_what_the_image_has(disk: Disk) -> None:
    storage, may = disk.storage, receivable()
    storage.receive(may)
    disk.arrive("web", may.id, {"book/a": b"2"})
    for volume in ("book", "base"):
        storage.make_received(may, volume, archive(("data", D, 0o750, b""), ("data/a", F, 0o640, b"seed")), "")
    storage.received(may, 7.0)
    put_back = restorable(storage, may.id)
    storage.exchange(put_back, storage.stage(put_back), 8.0)
    assert text(disk, "book/a") == b"2" and text(disk, "base/a") == b"seed"


def test_a_copy_from_elsewhere_that_is_not_complete_can_be_dropped(disk: Disk) -> None:
    disk.fill("web", {"a": b"1"})
    may = receivable()
    disk.storage.drop_received(may)
    disk.storage.receive(may)
    disk.arrive("web", may.id, {"a": b"1"})
    disk.storage.drop_received(may)
    assert disk.storage.checkpoints() == [] and disk.storage.checkpoint("web", "one", 1.0).files == 1
    for service, id in (("..", "b"), ("web", "../b"), ("web", ".b")):
        with pytest.raises(Invalid):
            disk.storage.receive(Receivable(service, id))


def test_a_copy_from_elsewhere_begins_empty_and_only_root_reads_it(root: Path) -> None:
    storage, may = open_storage(root), receivable()
    (Path(storage.receive(may)) / "old").write_bytes(b"1")
    path = Path(storage.receive(may))
    assert list(path.iterdir()) == [] and path.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o077 == 0


def test_an_order_for_another_backup_or_another_act_brings_no_copy_here() -> None:
    for wrong in (
        proof(action="fetch-backup", backup="f" * 64),
        proof(action="restore-checkpoint", checkpoint="one"),
        proof(action="restore"),
    ):
        assert isinstance(may_fetch(DIGEST, "w1", wrong), Park)
    assert isinstance(may_fetch(DIGEST, "w1", proof(action="restore", backup=DIGEST)), Receivable)


def restorable(storage: Any, id: str = "one") -> Restorable:
    (checkpoint,) = [one for one in storage.checkpoints() if one.id == id]
    order = proof(action="restore-checkpoint", number=9, checkpoint=id)
    made = may_restore(MemoryJournal(), checkpoint, storage.directory("web"), "w1", order)
    assert isinstance(made, Restorable)
    return made


def text(disk: Disk, name: str) -> bytes:
    """Of a file in the data of web, by way of a checkpoint: every storage can read those."""
    id = f"look{len(disk.storage.checkpoints())}"
    disk.storage.checkpoint("web", id, 9.0)
    return disk.read("web", id, name)


def test_a_checkpoint_replaces_the_data_which_becomes_a_checkpoint(disk: Disk) -> None:
    disk.fill("web", {"a": b"then", "gone": b"1"})
    disk.storage.checkpoint("web", "one", 1.0)
    disk.fill("web", {"a": b"now", "new": b"22"})
    may = restorable(disk.storage)
    staged = disk.storage.stage(may)
    assert disk.storage.stage(may) == staged and text(disk, "a") == b"now"
    old = disk.storage.exchange(may, staged, 5.0)
    assert old is not None and (old.id, old.made_s) == (may.replaced, 5.0) and old.size_bytes >= 5
    assert text(disk, "a") == b"then" and disk.read("web", old.id, "a") == b"now"
    assert disk.storage.exchange(may, staged, 6.0) == old, "done again: nothing more"
    assert text(disk, "a") == b"then" and disk.read("web", "one", "a") == b"then"
    assert [name for name in disk.names() if "restoring" in name] == []


def test_a_restore_leaves_volumes_without_checkpoints_as_they_are(disk: Disk) -> None:
    disk.fill("web", {"book/a": b"then", "cache/x": b"1"})
    assert disk.storage.checkpoint("web", "one", 1.0, ("cache",)).off == ("cache",)
    disk.fill("web", {"book/a": b"now", "cache/x": b"22"})
    may = restorable(disk.storage)
    staged = disk.storage.stage(may)
    for _ in range(2):
        old = disk.storage.exchange(may, staged, 5.0)
    assert old.off == ("cache",) and (old.size_bytes, old.files) == (3, 1)
    assert text(disk, "book/a") == b"then" and text(disk, "cache/x") == b"22"
    assert disk.read("web", old.id, "book/a") == b"now"
    with pytest.raises((OSError, KeyError)):
        disk.read("web", old.id, "cache/x")


def test_an_empty_volume_that_was_made_meanwhile_does_not_hide_the_one_without_checkpoints(disk: Disk) -> None:
    """A crash right after the exchange, and something makes the volumes of the service ready before it goes on."""
    disk.fill("web", {"book/a": b"then"})
    disk.storage.checkpoint("web", "one", 1.0, ("cache",))
    disk.fill("web", {"book/a": b"now", "cache/x": b"22"})
    may = restorable(disk.storage)
    staged = disk.storage.stage(may)
    disk.make(f".restoring-{may.order}-web/cache")
    disk.storage.exchange(may, staged, 5.0)
    assert text(disk, "cache/x") == b"22"


def test_data_of_empty_files_has_content(disk: Disk) -> None:
    """The last checkpoint that has content is not deleted by a limit."""
    disk.fill("web", {"lock": b""})
    disk.storage.checkpoint("web", "one", 1.0)
    may = restorable(disk.storage)
    old = disk.storage.exchange(may, disk.storage.stage(may), 5.0)
    assert old is not None and old.has_content and old.files == 1


def test_a_checkpoint_replaces_data_that_is_not_there(disk: Disk) -> None:
    disk.fill("web", {"a": b"then"})
    disk.storage.checkpoint("web", "one", 1.0)
    may = restorable(disk.storage)
    disk.storage.set_aside("web")
    staged = disk.storage.stage(may)
    assert disk.storage.exchange(may, staged, 5.0) is None and text(disk, "a") == b"then"


def test_a_staged_copy_that_is_not_needed_goes(disk: Disk) -> None:
    disk.fill("web", {"a": b"then"})
    disk.storage.checkpoint("web", "one", 1.0)
    may = restorable(disk.storage)
    disk.storage.stage(may)
    for _ in range(2):
        disk.storage.unstage(may)
    assert {name for name in disk.names() if not name.startswith(".check")} == {"web"} and text(disk, "a") == b"then"


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
    for touch, made in ((disk.storage.inner.condemn, Purgeable), (disk.storage.inner.dispose, Disposable)):
        with pytest.raises(Invalid):
            touch(made(name, proof().order.id))
    with pytest.raises(Invalid):
        disk.storage.inner.bring_back(Returnable(name, proof().order.id))


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
    disk.storage.destroy("web", proof(now="yes"))
    disk.storage.destroy("web", proof(now="yes"))
    assert disk.names() == {"db"}


@pytest.mark.parametrize(
    "wrong",
    [
        proof("data.db", now="yes"),
        proof(node="w2", now="yes"),
        proof("service.web", action="restart"),
        proof("node.w1", action="ping"),
    ],
)
def test_an_order_for_something_else_destroys_nothing(disk: Disk, wrong: VerifiedOrder) -> None:
    disk.fill("web", {"a": b"1"})
    for act in (disk.storage.destroy, disk.storage.condemn):
        with pytest.raises(SignatureRequired):
            act("web", wrong)
    assert disk.names() == {"web"}


def test_once_condemned_a_newer_directory_of_that_name_is_safe(disk: Disk) -> None:
    """A crash between condemning and destroying, and somebody made it anew meanwhile."""
    disk.fill("web", {"old": b"1"})
    disk.storage.condemn("web", proof())
    disk.storage.condemn("web", proof())
    assert disk.storage.set_aside_by("web") == [proof().order.id]
    disk.storage.create("web")
    disk.fill("web", {"new": b"2"})
    disk.storage.destroy("web", proof(now="yes"))
    assert disk.names() == {"web"} and disk.storage.set_aside_by("web") == []
    kept = disk.storage.directory("web")
    assert kept is not None and kept.files == 1


# ---- what containers mount


def test_a_volume_lies_below_its_service_and_is_made_once(disk: Disk) -> None:
    path = disk.storage.volume("web", "data")
    assert path == f"{disk.root}/web/data" and disk.names() == {"web"}
    assert disk.storage.volume("web", "data") == path
    web = disk.storage.directory("web")
    assert web is not None and web.entries == 1


@pytest.mark.parametrize(("service", "name"), [("web", "../db"), ("..", "data"), (".checkpoints", "x"), ("web", "")])
def test_a_volume_has_a_plain_name_and_so_has_its_service(disk: Disk, service: str, name: str) -> None:
    with pytest.raises(Invalid):
        disk.storage.volume(service, name)
    assert disk.names() == set()


def test_a_written_path_inside_the_services_own_directory_is_made(disk: Disk) -> None:
    assert disk.storage.host_path("web", f"{disk.root}/web") == f"{disk.root}/web"
    assert disk.storage.host_path("web", f"{disk.root}/web/conf/") == f"{disk.root}/web/conf"
    assert disk.names() == {"web"}


def test_a_written_path_elsewhere_must_be_there(disk: Disk) -> None:
    assert disk.storage.host_path("web", "/etc/hosts") == "/etc/hosts"
    for path in ("/etc/no-such-thing", f"{disk.root}/db/data"):
        with pytest.raises(Failed) as trouble:
            disk.storage.host_path("web", path)
        assert trouble.value.code == "no_such_path" and path in trouble.value.remedy
    assert disk.names() == set()


def test_a_path_below_the_data_of_another_service_has_no_links_and_one_elsewhere_may(root: Path) -> None:
    """The gate decides who may mount it; a container of that service may have made a link."""
    storage, elsewhere = open_storage(root), root.parent / "elsewhere"
    (root / "db" / "data").mkdir(parents=True)
    (root / "db" / "link").symlink_to(root / "db" / "data")
    elsewhere.symlink_to(root.parent)
    for path in (root / "db" / "data", root, elsewhere):
        assert storage.host_path("web", str(path)) == str(path)
    with pytest.raises(NotPermitted, match="symbolic link"):
        storage.host_path("web", str(root / "db" / "link"))


@pytest.mark.parametrize("place", ["/home", "/root", "/run/user", "/tmp", "/var/tmp"])
def test_a_written_path_that_the_agents_unit_hides_is_not_called_missing(tmp_path: Path, place: str) -> None:
    """In its systemd unit an agent sees nothing there (ProtectHome, PrivateTmp), and making the directory would not
    help."""
    with pytest.raises(Failed) as trouble:
        open_storage(tmp_path).host_path("web", f"{place}/no-such-thing")
    assert trouble.value.code == "no_such_path" and "its systemd unit hides" in trouble.value.message
    assert "mkdir" not in trouble.value.remedy


@pytest.mark.parametrize("path", ["data", "", "/srv/web/../db"])
def test_a_written_path_is_absolute_and_goes_nowhere_up(disk: Disk, path: str) -> None:
    with pytest.raises(Invalid):
        disk.storage.host_path("web", path)


# ---- checkpoints


def test_a_checkpoint_is_a_whole_copy_that_later_writes_do_not_reach(disk: Disk) -> None:
    disk.fill("web", {"a": b"1", "b": b"22"})
    made = disk.storage.checkpoint("web", "c1", 5.0)
    assert made == Checkpoint("web", "c1", f"{disk.root}/.checkpoints/web/c1", 3, 5.0, files=2)
    disk.fill("web", {"a": b"changed", "b": b"22"})
    assert (disk.read("web", "c1", "a"), disk.read("web", "c1", "b")) == (b"1", b"22")
    assert disk.storage.checkpoints() == [made]


def test_the_same_checkpoint_again_is_the_one_that_is_there(disk: Disk) -> None:
    """A crash between copying and writing it down: the copy of before the change must not be replaced by one after."""
    disk.fill("web", {"a": b"before"})
    made = disk.storage.checkpoint("web", "c1", 5.0)
    disk.fill("web", {"a": b"after"})
    assert disk.storage.checkpoint("web", "c1", 9.0) == made
    assert disk.read("web", "c1", "a") == b"before"


def test_checkpoints_are_listed_by_service_oldest_first_and_are_no_data_directories(disk: Disk) -> None:
    for name in ("web", "db"):
        disk.fill(name, {"a": b"1"})
    for name, id, at_s in (("web", "z", 1.0), ("web", "a", 2.0), ("db", "m", 3.0)):
        disk.storage.checkpoint(name, id, at_s)
    assert [(c.service, c.id) for c in disk.storage.checkpoints()] == [("db", "m"), ("web", "z"), ("web", "a")]
    assert [found.name for found in disk.storage.directories()] == ["db", "web"]
    with pytest.raises(Invalid):
        disk.storage.directory(".checkpoints")


def test_only_what_is_there_is_copied_and_only_under_a_plain_name(disk: Disk) -> None:
    with pytest.raises(Failed):
        disk.storage.checkpoint("web", "c1", 1.0)
    disk.fill("web", {"a": b"1"})
    for id in ("", ".", "..", ".half-c1", "../c1", "a/b", "C", "x" * 101, "c1\n"):
        with pytest.raises(Invalid):
            disk.storage.checkpoint("web", id, 1.0)
    for service in (".checkpoints", "..", "Web"):
        with pytest.raises(Invalid):
            disk.storage.checkpoint(service, "c1", 1.0)
    assert disk.storage.checkpoints() == []


def test_a_discarded_checkpoint_is_gone_and_its_neighbours_and_the_data_are_not(disk: Disk) -> None:
    disk.fill("web", {"a": b"1"})
    first, second = disk.storage.checkpoint("web", "c1", 1.0), disk.storage.checkpoint("web", "c2", 2.0)
    disk.storage.discard(discardable(first))
    disk.storage.discard(discardable(first))
    assert disk.storage.checkpoints() == [second] and disk.read("web", "c2", "a") == b"1"
    web = disk.storage.directory("web")
    assert web is not None and web.files == 1
    assert disk.storage.checkpoint("web", "c1", 3.0).made_s == 3.0


def test_the_gate_lets_go_only_of_what_this_agent_marked_as_scratch() -> None:
    """I-04: provenance is read from the journal, by the checkpoint's own path."""
    checkpoint = Checkpoint("web", "c1", "/srv/.checkpoints/web/c1", 1, 1.0)
    journal = MemoryJournal()
    assert isinstance(may_discard(journal, checkpoint, "w1"), Park)
    journal.note_made(checkpoint.path, "op", scratch=False)
    assert isinstance(may_discard(journal, checkpoint, "w1"), Park)
    journal.note_made("/srv/.checkpoints/web/c2", "op", scratch=True)
    assert isinstance(may_discard(journal, checkpoint, "w1"), Park)
    journal.note_made(checkpoint.path, "op", scratch=True)
    assert may_discard(journal, checkpoint, "w1") == Discardable(checkpoint)


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
    open_storage(root).destroy("web", proof(now="yes"))
    assert (outside / "precious").read_bytes() == b"x" and os.listdir(root) == []


def test_a_link_in_place_of_a_directory_or_of_the_root_is_refused(root: Path) -> None:
    real = root.parent / "real"
    (real / "web").mkdir(parents=True)
    (real / "web" / "precious").write_bytes(b"x")
    (root / "web").symlink_to(real / "web")
    storage = open_storage(root)
    with pytest.raises(NotPermitted):
        storage.destroy("web", proof(now="yes"))
    with pytest.raises(NotPermitted):
        storage.directory("web")
    assert storage.directories() == []
    (root.parent / "linked").symlink_to(real)
    with pytest.raises(NotPermitted):
        open_storage(root.parent / "linked").destroy("web", proof(now="yes"))
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
        f'storage = open_storage(Path("{root}"))\n'
        'try: storage.destroy("web", proof(now="yes"))\n'
        "except NotPermitted: sys.exit(3)'"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
    assert (precious / "file").exists() and (root / "web").exists()


def test_a_mount_inside_what_was_set_aside_stops_its_deletion(root: Path) -> None:
    precious, storage = root.parent / "precious", open_storage(root)
    precious.mkdir()
    (precious / "file").write_bytes(b"x")
    (root / "web" / "inner").mkdir(parents=True)
    storage.condemn("web", proof())
    inside = root / f".purging-{proof().order.id}-web" / "inner"
    subprocess.run(["mount", "--bind", str(precious), str(inside)], check=True)
    try:
        with pytest.raises(NotPermitted, match="is a mount point"):
            storage.dispose(disposable("web", proof().order.id))
        assert (precious / "file").exists()
    finally:
        subprocess.run(["umount", str(inside)], check=True)


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
    storage = open_storage(root)
    found = storage.directory("web")
    assert found is not None and 0 < found.files <= COUNT_MAX
    storage.destroy("web", proof(now="yes"))
    assert os.listdir(root) == []


def test_a_missing_root_is_no_data_and_no_crash(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "nowhere")
    assert storage.directories() == [] and storage.directory("web") is None
    storage.destroy("web", proof(now="yes"))
    with pytest.raises(HoldfastError):
        storage.create("web")


def test_a_new_volume_can_be_seen_by_a_containers_users_and_its_service_only_by_root(root: Path) -> None:
    storage = open_storage(root)
    old = os.umask(0o077)
    try:
        storage.volume("web", "data")
        storage.host_path("api", f"{root}/api/deep/er")
    finally:
        os.umask(old)
    modes = {
        path: (root / path).stat().st_mode & 0o777 for path in ("web", "web/data", "api", "api/deep", "api/deep/er")
    }
    assert modes == {"web": 0o700, "web/data": 0o755, "api": 0o755, "api/deep": 0o755, "api/deep/er": 0o755}
    os.chmod(root / "web" / "data", 0o750)
    os.chown(root / "web" / "data", 70, 70)
    storage.volume("web", "data")
    kept = (root / "web" / "data").stat()
    assert (kept.st_mode & 0o777, kept.st_uid) == (0o750, 70)


def test_no_mount_leads_over_a_link_a_container_may_have_made(root: Path) -> None:
    outside = root.parent / "outside"
    (outside / "inner").mkdir(parents=True)
    (root / "web").mkdir()
    (root / "db").mkdir()
    for link in (root / "web" / "data", root / "db" / "data"):
        link.symlink_to(outside)
    storage = open_storage(root)
    with pytest.raises(NotPermitted):
        storage.volume("web", "data")
    for path in ("web/data", "web/data/inner", "web/data/new", "db/data/inner"):
        with pytest.raises(NotPermitted):
            storage.host_path("web", f"{root}/{path}")
    assert os.listdir(outside) == ["inner"]


def test_a_file_of_its_own_may_be_mounted_but_nothing_of_the_agents(root: Path) -> None:
    (root / "web").mkdir()
    (root / "web" / "app.conf").write_bytes(b"x")
    storage = open_storage(root)
    assert storage.host_path("web", f"{root}//web/./app.conf") == f"{root}/web/app.conf"
    made = storage.checkpoint("web", "c1", 1.0)
    (root.parent / "detour").symlink_to(root / ".checkpoints")
    for path in (made.path, f"{root}/.checkpoints", f"{root.parent}/detour/web"):
        with pytest.raises(NotPermitted):
            storage.host_path("web", path)


def _about(path: Path) -> tuple[int, int, int, int]:
    about = path.lstat()
    return about.st_mode, about.st_uid, about.st_gid, about.st_mtime_ns


@pytest.fixture(params=["/tmp", "/dev/shm"], ids=["disk", "tmpfs"])
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=request.param) as path:
        yield Path(path)


def test_a_copy_keeps_owners_modes_times_links_and_holes(place: Path) -> None:
    web = place / "web"
    (web / "inner" / "deep").mkdir(parents=True)
    (web / "inner" / "secret").write_bytes(b"s" * 5000)
    os.chown(web / "inner" / "secret", 70, 71)
    os.chmod(web / "inner" / "secret", 0o4640)
    os.chown(web / "inner", 80, 81)
    os.chmod(web / "inner", 0o1730)
    (web / "to-etc").symlink_to("/etc")
    (web / "inner" / "dangling").symlink_to("nowhere")
    os.link(web / "inner" / "secret", web / "inner" / "deep" / "same")
    os.mkfifo(web / "pipe", 0o640)
    (web / "empty").write_bytes(b"")
    with open(web / "sparse", "wb") as file:
        file.write(b"begin")
        file.seek(8 << 20)
        file.write(b"middle")
        file.truncate(64 << 20)
    for path in [*sorted(web.rglob("*"), reverse=True), web]:
        os.utime(path, ns=(10**18 + 1, 10**18 + 123456789), follow_symlinks=False)
    made = DirectoryStorage(str(place), "w1").checkpoint("web", "c1", 5.0)
    copy = Path(made.path)
    names = sorted(str(path.relative_to(web)) for path in web.rglob("*"))
    assert sorted(str(path.relative_to(copy)) for path in copy.rglob("*")) == names
    assert {name: _about(copy / name) for name in (".", *names)} == {name: _about(web / name) for name in (".", *names)}
    assert os.readlink(copy / "to-etc") == "/etc" and os.readlink(copy / "inner" / "dangling") == "nowhere"
    assert (copy / "inner" / "secret").samefile(copy / "inner" / "deep" / "same")
    assert not (copy / "inner" / "secret").samefile(web / "inner" / "secret")
    assert (copy / "sparse").read_bytes() == (web / "sparse").read_bytes()
    assert (copy / "sparse").stat().st_blocks * 512 < 1 << 20
    assert made.left_out == () and (place / ".checkpoints").stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_copied_is_named(root: Path) -> None:
    (root / "web" / "run").mkdir(parents=True)
    (root / "web" / "a").write_bytes(b"1")
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(root / "web" / "run")  # the path of a socket is short
        listening.bind("s")
        os.chdir(here)
    made = DirectoryStorage(str(root), "w1").checkpoint("web", "c1", 5.0)
    assert made.left_out == ("run/s",) and os.listdir(Path(made.path) / "run") == []
    assert DirectoryStorage(str(root), "w1").checkpoints() == [made]
    for number in range(copying.LEFT_OUT_MAX):
        os.mknod(root / "web" / "run" / f"s{number}", stat.S_IFSOCK | 0o600)
    more = DirectoryStorage(str(root), "w1").checkpoint("web", "c2", 6.0)
    assert len(more.left_out) == copying.LEFT_OUT_MAX, "no more names than a report has room for"


def test_a_name_that_is_no_text_keeps_no_checkpoint_from_being_made_and_reported(root: Path) -> None:
    """Else a program could keep its service down: the checkpoint is made while it is stopped."""
    (root / "web" / "run").mkdir(parents=True)
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(root / "web" / "run")
        listening.bind(b"\xff\n")
        os.chdir(here)
    made = DirectoryStorage(str(root), "w1").checkpoint("web", "c1", 5.0)
    assert made.left_out == ("run/?\n",) and DirectoryStorage(str(root), "w1").checkpoints() == [made]


def test_an_error_about_such_a_name_can_be_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that moves its directories while they are copied gets the name of one into a text."""
    (root / "web").mkdir()

    def moved(handle: int, without: frozenset[str] = frozenset()) -> Any:
        raise OSError(errno.ESTALE, "a directory was moved while it was read", "\udcff" * 5000)

    monkeypatch.setattr(tree, "walk", moved)
    with pytest.raises(Failed) as failed:
        DirectoryStorage(str(root), "w1").checkpoint("web", "c1", 5.0)
    assert "was moved" in failed.value.message and len(failed.value.message.encode()) < 1000


def test_another_file_system_inside_is_left_out_and_named(root: Path) -> None:
    (root / "web" / "bulk").mkdir(parents=True)
    (root / "web" / "a").write_bytes(b"1")
    script = (
        f"mount -t tmpfs none {root}/web/bulk && touch {root}/web/bulk/huge && exec {sys.executable} -c "
        "'from tests.contracts.test_storage import *\n"
        f'print(DirectoryStorage("{root}", "w1").checkpoint("web", "c1", 1.0).left_out)\''
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "('bulk',)", done.stderr
    assert os.listdir(root / ".checkpoints" / "web" / "c1") == ["a"]


def test_a_very_deep_and_a_very_wide_tree_is_copied_too(root: Path) -> None:
    (root / "web").mkdir()
    at = os.open(root / "web", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    for number in range(2000):
        (root / "web" / f"f{number}").write_bytes(b"x")
    storage = open_storage(root)
    with none_left_open():
        made = storage.checkpoint("web", "c1", 1.0)
    assert made.size_bytes == 2000
    at = os.open(made.path, os.O_RDONLY)
    for _ in range(1500):
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    assert os.listdir(at) == ["bottom"]
    os.close(at)
    storage.discard(discardable(made))
    storage.destroy("web", proof(now="yes"))
    assert not (root / ".checkpoints" / "web").exists() and storage.checkpoints() == []


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB of our own."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("early", [True, False], ids=["before it is full", "when it is full"])
def test_without_space_there_is_no_checkpoint_and_no_half_of_one(
    small: Path, early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not early:
        monkeypatch.setattr(blocks, "keep_reserve", lambda target, needed_bytes: None)
    (small / "web").mkdir()
    (small / "web" / "a").write_bytes(b"a" * (1 << 20))
    (small / "web" / "b").write_bytes(os.urandom((1 << 20) + (1 << 19)))
    free = os.statvfs(small).f_bfree
    storage = DirectoryStorage(str(small), "w1")
    with pytest.raises(Failed) as trouble:
        storage.checkpoint("web", "c1", 1.0)
    assert trouble.value.code == "no_space" and "not enough space" in str(trouble.value)
    assert os.listdir(small / ".checkpoints" / "web") == [] and storage.checkpoints() == []
    assert os.statvfs(small).f_bfree >= free - 2
    (small / "web" / "b").unlink()
    assert storage.checkpoint("web", "c1", 1.0).size_bytes == 1 << 20


def test_killed_in_the_middle_there_is_none_and_the_next_try_makes_it_whole(root: Path) -> None:
    (root / "web").mkdir()
    for number in range(50):
        (root / "web" / f"f{number:02}").write_bytes(b"x")
    script = f"""
import os
from holdfast.adapters.storage import blocks
from holdfast.adapters.storage.directory import DirectoryStorage
left, real = [25], blocks.copy
def copy(*given):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), 9)
    return real(*given)
blocks.copy = copy
DirectoryStorage({str(root)!r}, "w1").checkpoint("web", "c1", 1.0)
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == -9
    storage = DirectoryStorage(str(root), "w1")
    assert storage.checkpoints() == [] and len(os.listdir(root / ".checkpoints" / "web" / ".half-c1")) == 25 + 1
    assert storage.checkpoint("web", "c1", 2.0).size_bytes == 50
    assert len(os.listdir(root / ".checkpoints" / "web" / "c1")) == 50
    assert sorted(os.listdir(root / ".checkpoints" / "web")) == [".about-c1", ".stamps-c1", "c1"]


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "web" / "inner").mkdir(parents=True)
    (root / "web" / "inner" / "a").write_bytes(b"1")
    flushed: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", lambda *given, **named: flushed.append("named"))
    DirectoryStorage(str(root), "w1").checkpoint("web", "c1", 1.0)
    shelf = f"{root}/.checkpoints/web"
    assert set(flushed[: flushed.index("named")]) >= {
        f"{root}", f"{root}/.checkpoints", f"{shelf}/.half-c1", f"{shelf}/.half-c1/inner",
        f"{shelf}/.half-c1/inner/a", f"{shelf}/.about-c1",
    }  # fmt: skip
    assert flushed[-1] == shelf


def test_what_was_written_about_a_checkpoint_can_be_lost(root: Path) -> None:
    (root / "web").mkdir()
    (root / "web" / "a").write_bytes(b"123")
    storage = DirectoryStorage(str(root), "w1")
    made = storage.checkpoint("web", "c1", 5.0)
    for damage in (b"{", b""):
        (root / ".checkpoints" / "web" / ".about-c1").write_bytes(damage)
        (found,) = storage.checkpoints()
        assert (found.id, found.path, found.size_bytes) == (made.id, made.path, 3) and found.made_s > 1e9
    (root / ".checkpoints" / "notes.txt").write_bytes(b"an operator's")
    (root / ".checkpoints" / "web" / "notes.txt").write_bytes(b"an operator's")
    assert len(storage.checkpoints()) == 1


def test_a_proof_with_another_path_discards_only_what_it_names(root: Path) -> None:
    for name in ("web", "db"):
        (root / name).mkdir()
        (root / name / "a").write_bytes(b"1")
    storage = DirectoryStorage(str(root), "w1")
    made = storage.checkpoint("web", "c1", 1.0)
    for lie in (replace(made, path=f"{root}/db"), replace(made, id="c2", path=made.path)):
        storage.discard(discardable(lie))
        assert (root / "db" / "a").exists()
    for wrong in (replace(made, service=".."), replace(made, id=".."), replace(made, id="../../db")):
        with pytest.raises(Invalid):
            storage.discard(discardable(wrong))
    assert (root / "web" / "a").exists() and (root / "db" / "a").exists()


def test_discarding_never_follows_a_link(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"x")
    (root / "web").mkdir()
    (root / "web" / "out").symlink_to(outside)
    storage = DirectoryStorage(str(root), "w1")
    storage.discard(discardable(storage.checkpoint("web", "c1", 1.0)))
    (root / ".checkpoints" / "web" / "c2").symlink_to(outside)
    with pytest.raises(NotPermitted):
        storage.discard(discardable(Checkpoint("web", "c2", str(root / ".checkpoints/web/c2"), 0, 1.0)))
    assert (outside / "precious").exists()


def test_reports_count_a_directory_seldom_and_decisions_always(root: Path) -> None:
    now = [100.0]
    storage = DirectoryStorage(str(root), "w1", monotonic_s=lambda: now[0])
    (root / "web").mkdir()
    assert [found.files for found in storage.directories()] == [0]
    (root / "web" / "a").write_bytes(b"1")
    (root / "db").mkdir()
    assert [(found.name, found.files) for found in storage.directories()] == [("db", 0), ("web", 0)]
    fresh = storage.directory("web")
    assert fresh is not None and fresh.files == 1
    now[0] += COUNTED_FOR_S
    assert [(found.name, found.files) for found in storage.directories()] == [("db", 0), ("web", 1)]
    (root / "db").rmdir()
    assert [found.name for found in storage.directories()] == ["web"]
    (root / "db").mkdir()
    (root / "db" / "new").write_bytes(b"22")
    assert [found.size_bytes for found in storage.directories()] == [2, 1]


def test_a_report_spends_little_time_on_counting_and_every_directory_has_its_turn(root: Path) -> None:
    now, step_s = [100.0], [0.0]

    def monotonic_s() -> float:
        now[0] += step_s[0]
        return now[0]

    for number in range(6):
        (root / f"s{number}").mkdir()
    storage = DirectoryStorage(str(root), "w1", monotonic_s=monotonic_s)
    storage.directories()
    for number in range(6):
        (root / f"s{number}" / "a").write_bytes(b"1")
    now[0] += COUNTED_FOR_S
    step_s[0] = 0.02
    renewed = [sum(found.files for found in storage.directories()) for _ in range(3)]
    assert renewed == [2, 4, 6]


def test_checkpoints_whose_data_is_gone_are_set_aside_and_data_made_since_then_stays(root: Path) -> None:
    storage = open_storage(root)
    (root / "web").mkdir()
    (root / "web" / "a").write_bytes(b"1")
    storage.checkpoint("web", "one", 1.0)
    shutil.rmtree(root / "web")
    storage.condemn("web", proof())
    assert storage.set_aside_by("web") == [proof().order.id]
    assert [(one.size_bytes, one.files, one.checkpoints) for one in storage.asides()] == [(0, 0, 1)]
    (root / "web").touch()
    storage.condemn("web", proof())  # what is no directory is not looked at again
    (root / "web").unlink()
    (root / "web").mkdir()
    storage.condemn("web", proof())  # the same order, after a crash
    assert (root / "web").exists()
    storage.destroy("web", proof(now="yes"))
    assert storage.set_aside_by("web") == [] and (root / "web").exists()


def test_killed_while_it_comes_back_data_is_there_only_with_its_passports_and_checkpoints(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename
    for at in range(9):
        data = root / str(at) / "web"
        data.mkdir(parents=True)
        storage = open_storage(data.parent)
        storage.keep_passport("web/files", b"text")
        storage.checkpoint("web", "one", 1.0)
        storage.condemn("web", proof())
        purge, left = proof().order.id, at
        back = proof(action="restore-retired", number=2, purge=purge)

        def dies(*given: Any, **named: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            rename(*given, **named)

        with monkeypatch.context() as patched, suppress(Killed):
            patched.setattr(os, "rename", dies)
            storage.bring_back("web", purge, back)
        whole = storage.passport("web/files") == b"text" and len(storage.checkpoints()) == 1
        assert whole or not data.exists(), at
        storage.bring_back("web", purge, back)
        assert storage.passport("web/files") == b"text" and data.exists() and storage.set_aside_by("web") == []
        if left >= 0:
            break
    assert 3 <= at < 8


class Killed(BaseException):
    """kill -9: nothing after it happens."""


@pytest.mark.parametrize("flag", [2, 1 << 30], ids=["exchanges", "cannot exchange"])
def test_killed_at_any_rename_the_same_order_ends_with_the_restored_data_and_the_old_one_kept(
    flag: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses an unknown flag, as a file system does that cannot exchange two names."""
    monkeypatch.setattr(restoring, "_EXCHANGE", flag)
    storage = DirectoryStorage(str(root), "w1")
    page, plain, flush = root / "web" / "page", os.rename, os.fsync
    page.parent.mkdir()
    deaths = 0
    for at in range(12):
        page.write_bytes(b"then")
        made = storage.checkpoint("web", f"c{at}", 1.0)
        page.write_bytes(b"now")
        order = proof(action="restore-checkpoint", number=100 + at, checkpoint=made.id)
        may = may_restore(MemoryJournal(), made, storage.directory("web"), "w1", order)
        assert isinstance(may, Restorable)
        staged, left = storage.stage(may), at

        def dies(*given: Any, act: Any = None, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return act(*given, **named)

        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", partial(dies, act=plain))
            patched.setattr(os, "fsync", partial(dies, act=flush))
            with suppress(Killed):
                storage.exchange(may, staged, 5.0)
        deaths += left < 0
        found = page.read_bytes() if page.exists() else None
        assert found in (b"then", b"now") or (flag != 2 and found is None), at
        old = storage.exchange(may, staged, 6.0)
        assert old is not None and (Path(old.path) / "page").read_bytes() == b"now", at
        assert page.read_bytes() == b"then", at
        assert not [name for name in os.listdir(root) if "restoring" in name], at
        if left >= 0:
            break
    assert 3 <= deaths < 12


def test_without_space_a_restore_changes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = DirectoryStorage(str(root), "w1")
    (root / "web").mkdir()
    (root / "web" / "page").write_bytes(b"then")
    storage.checkpoint("web", "one", 1.0)
    (root / "web" / "page").write_bytes(b"now")
    may = restorable(storage)

    def full(source: int, target: int, code: int = errno.ENOSPC) -> None:
        with suppress(FileExistsError):
            os.mkdir("half", dir_fd=target)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(copying, "copy", full)
    with pytest.raises(Failed) as refused:
        storage.stage(may)
    assert refused.value.code == "no_space" and (root / "web" / "page").read_bytes() == b"now"
    assert sorted(os.listdir(root)) == [".checkpoints", "web"]
    monkeypatch.setattr(copying, "copy", lambda source, target: full(source, target, errno.EIO))
    with monkeypatch.context() as patched, pytest.raises(Failed, match=os.strerror(errno.EIO)) as other:
        patched.setattr(tree, "empty_out", partial(full, 0))  # the half copy cannot be dropped
        storage.stage(may)
    monkeypatch.undo()
    assert other.value.code != "no_space" and len(os.listdir(root)) == 3
    storage.exchange(may, storage.stage(may), 5.0)
    assert os.listdir(root / "web") == ["page"] and sorted(os.listdir(root)) == [".checkpoints", "web"]


def test_a_kernel_that_fails_to_exchange_is_believed_and_data_is_flushed_before(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, calls = DirectoryStorage(str(root), "w1"), list[str]()
    (root / "web").mkdir()
    (root / "web" / "page").write_bytes(b"then")
    storage.checkpoint("web", "one", 1.0)
    may = restorable(storage)
    staged = storage.stage(may)

    def exchange(*given: object) -> int:
        calls.append("exchange")
        return -1

    kernel = SimpleNamespace(
        syncfs=lambda handle: calls.append(os.readlink(f"/proc/self/fd/{handle}")),
        renameat2=exchange,
    )
    with monkeypatch.context() as patched, pytest.raises(Failed, match=os.strerror(errno.EIO)):
        patched.setattr(ctypes, "CDLL", lambda *given, **named: kernel)
        patched.setattr(ctypes, "get_errno", lambda: errno.EIO)
        storage.exchange(may, staged, 5.0)
    assert calls == [str(root / "web"), "exchange"] and (root / "web" / "page").exists()
    assert storage.exchange(may, staged, 5.0) is not None


def test_what_is_set_aside_restored_or_deleted_is_on_the_disk_and_no_handle_stays_open(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut right after an order that was reported as done."""
    storage, purge, flushed = open_storage(root), proof().order.id, list[str]()
    fsync, shelf = os.fsync, str(root / ".checkpoints" / "web")

    def noted(handle: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    def flushed_by(act: Callable[..., object], *given: object) -> list[str]:
        flushed.clear()
        with none_left_open():
            act(*given)
        return flushed

    monkeypatch.setattr(os, "fsync", noted)
    flushed_by(storage.volume, "web", "files")
    flushed_by(storage.host_path, "web", f"{root}/web/conf/app.d")
    storage.keep_passport("web/files", b"text")
    storage.checkpoint("web", "one", 1.0, frozenset({"files"}))
    may = restorable(storage)
    assert flushed_by(storage.stage, may)[-1] == str(root)
    flushed_by(storage.unstage, may)
    staged = storage.stage(may)
    assert flushed_by(storage.exchange, may, staged, 5.0)[:2] == [str(root / "web"), str(root)]
    assert flushed_by(storage.need, "web") == []
    above = [str(root / place) for place in (".checkpoints", ".passports")]
    assert flushed_by(storage.condemn, "web", proof()) == [str(root), *above, str(root)]
    back = proof(action="restore-retired", number=2, purge=purge)
    done = flushed_by(storage.bring_back, "web", purge, back)
    assert {shelf, str(root / ".passports" / "web")} <= set(done) and done[-1] == str(root)
    shutil.rmtree(shelf)
    storage.condemn("web", proof(number=3))
    assert [(one.checkpoints, one.checkpoints_bytes) for one in storage.asides()] == [(0, 0)]
    assert flushed_by(storage.dispose, disposable("web", proof(number=3).order.id))[-1] == str(root)


def test_of_a_volume_without_checkpoints_that_was_written_after_a_crash_nothing_is_lost(root: Path) -> None:
    storage = DirectoryStorage(str(root), "w1")
    (root / "web" / "book").mkdir(parents=True)
    (root / "web" / "cache").mkdir()
    (root / "web" / "cache" / "page").write_bytes(b"before")
    storage.checkpoint("web", "one", 1.0, frozenset({"cache", "never"}))
    may = restorable(storage)
    staged = storage.stage(may)
    made = root / f".restoring-{may.order}-web" / "cache"
    made.mkdir()
    (made / "page").write_bytes(b"after")
    old = storage.exchange(may, staged, 5.0)
    assert (root / "web" / "cache" / "page").read_bytes() == b"after" and sorted(os.listdir(root / "web")) == [
        "book",
        "cache",
    ]
    assert old is not None and (Path(old.path) / "cache" / "page").read_bytes() == b"before"


def test_a_volume_without_checkpoints_stays_with_the_data(root: Path) -> None:
    """`checkpoint = "off"`: the copy does not hold it, so that a restore leaves it as it is."""
    storage = DirectoryStorage(str(root), "w1")
    for volume in ("book", "cache"):
        (root / "web" / volume).mkdir(parents=True)
        (root / "web" / volume / "page").write_bytes(b"then")
    storage.checkpoint("web", "one", 1.0, frozenset({"cache"}))
    for volume in ("book", "cache"):
        (root / "web" / volume / "page").write_bytes(b"now")
    may = restorable(storage)
    old = storage.exchange(may, storage.stage(may), 5.0)
    assert (root / "web" / "book" / "page").read_bytes() == b"then"
    assert (root / "web" / "cache" / "page").read_bytes() == b"now"
    assert old is not None and old.off == ("cache",) and sorted(os.listdir(old.path)) == ["book"]


# ---- a container that writes while its data is copied


def test_a_file_that_grows_while_it_is_copied_does_not_hold_the_copy(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that writes faster than the copy would fill the disk beyond the reserve."""
    monkeypatch.setattr(blocks, "clone", lambda *ignored: False)
    (root / "web").mkdir()
    log = root / "web" / "log"
    log.write_bytes(b"x" * 1000)
    calls = []

    def grow(moved_bytes: int) -> None:
        calls.append(moved_bytes)
        assert len(calls) < 20, "the copy follows the file for ever"
        with log.open("ab") as file:
            file.write(b"y" * 1000)

    storage = DirectoryStorage(str(root), "w1")
    storage.copy_ahead("web", "one", (), grow)
    with monkeypatch.context() as patched:  # right before it is read
        patched.setattr(blocks, "keep_reserve", lambda target, needed_bytes: grow(0))
        before = log.stat().st_size
        storage.drop_ahead("web")
        storage.copy_ahead("web", "one", (), calls.append)
        assert calls[-2:] == [0, before]
    made = storage.checkpoint("web", "one", 1.0)
    assert made.size_bytes == log.stat().st_size
    assert (Path(made.path) / "log").read_bytes() == log.read_bytes()


def opened_while(path: Path, act: Callable[[], object]) -> bool:
    """Whether something opened the file at `path` meanwhile, by inotify. O_PATH does not count: it opens no device."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    assert watch >= 0 and libc.inotify_add_watch(watch, os.fsencode(path), 0x20) >= 0  # IN_OPEN
    try:
        act()
        return bool(os.read(watch, 4096))
    except BlockingIOError:
        return False
    finally:
        os.close(watch)


def test_what_replaced_a_file_meanwhile_is_not_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a device has effects, and a container can put one in the place of a file: a pipe stands for it here."""
    (root / "web").mkdir()
    (root / "web" / "file").write_bytes(b"1")
    os.mkfifo(root / "web" / "pipe")
    walk, swapped = tree.walk, list[str]()

    def racing(*given: Any) -> Iterator[Any]:
        for visit in walk(*given):
            if visit.name == "file" and not swapped:
                os.rename(root / "web" / "pipe", root / "web" / "file")
                swapped.append(visit.name)
            yield visit

    monkeypatch.setattr(tree, "walk", racing)
    storage = DirectoryStorage(str(root), "w1")
    ahead = lambda: storage.copy_ahead("web", "one", (), lambda moved: None)  # noqa: E731
    assert not opened_while(root / "web" / "pipe", ahead) and swapped
    made = storage.checkpoint("web", "one", 1.0)
    assert os.listdir(made.path) == ["file"] and (Path(made.path) / "file").is_fifo()


@pytest.mark.parametrize("kind", ["link", "file", "directory"])
def test_an_entry_that_changes_its_kind_meanwhile_does_not_end_the_copy(
    root: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A container that does so could prevent its own replacement."""
    (root / "web").mkdir()
    at, other = root / "web" / "entry", root / "web" / "other"
    make: dict[str, Callable[[Path], object]] = {
        "link": lambda path: path.symlink_to("/etc/shadow"), "file": lambda path: path.write_bytes(b"1"),
        "directory": lambda path: path.mkdir(),
    }  # fmt: skip
    for kinds in [(kind, became) for became in make if became != kind]:
        for path, one in zip((at, other), kinds, strict=True):
            make[one](path)
        walk = tree.walk

        def racing(*given: Any, walk: Any = walk) -> Iterator[Any]:
            for visit in walk(*given):
                if visit.kind != "leave" and visit.name == "entry" and os.path.lexists(other):
                    at.rename(root / "aside")
                    other.rename(at)
                yield visit

        with monkeypatch.context() as patch:
            patch.setattr(tree, "walk", racing)
            DirectoryStorage(str(root), "w1").copy_ahead("web", "one", (), lambda moved: None)
        for path in (at, root / "aside"):
            remove = path.rmdir if path.is_dir() and not path.is_symlink() else path.unlink
            remove()
