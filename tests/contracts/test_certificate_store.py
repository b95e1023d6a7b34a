"""Where certificates of routes lie: chain and key together or not at all, for root alone, whatever is cut (I-18)."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.adapters.certificate_store.files import FileShelf
from holdfast.adapters.certificate_store.memory import MemoryShelf
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.errors import Corrupt, Failed, HoldfastError, Invalid
from holdfast.ports.certificate_store import CertificateStore, StoredCertificate
from tests.fleets.chains import Authority, pem

NOW_S = 1_760_000_000.0
AUTHORITY = Authority(NOW_S)
NAME = "www.example.test"


def made(name: str = NAME) -> StoredCertificate:
    leaf, private = AUTHORITY.leaf((name,))
    return StoredCertificate(pem(leaf) + pem(AUTHORITY.intermediate), private)


OLD, NEW = made(), made()


@pytest.fixture(params=["files", "memory"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> CertificateStore:
    return FileShelf(str(tmp_path / "state" / "routes"), PosixDisk()) if request.param == "files" else MemoryShelf()


def test_what_is_kept_is_there_until_it_is_dropped(shelf: CertificateStore) -> None:
    assert shelf.names() == () and shelf.kept(NAME) is None
    shelf.keep(NAME, OLD)
    shelf.keep("a.example.test", NEW)
    assert shelf.names() == ("a.example.test", NAME)
    assert (shelf.kept(NAME), shelf.kept("a.example.test")) == (OLD, NEW)
    shelf.keep(NAME, NEW)
    assert shelf.kept(NAME) == NEW
    shelf.drop(NAME)
    shelf.drop(NAME)
    assert shelf.names() == ("a.example.test",) and shelf.kept(NAME) is None


def test_nothing_prints_a_key(shelf: CertificateStore) -> None:
    """I-18."""
    shelf.keep(NAME, OLD)
    assert "PRIVATE" not in repr(shelf.kept(NAME)) + repr(shelf)


# ---- files


def on_disk(tmp_path: Path) -> tuple[FileShelf, Path]:
    return FileShelf(str(tmp_path / "routes"), PosixDisk()), tmp_path / "routes" / NAME


def test_files_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    shelf, file = on_disk(tmp_path)
    old = os.umask(0)
    try:
        shelf.keep(NAME, OLD)
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert FileShelf(str(file.parent), PosixDisk()).kept(NAME) == OLD, "another process finds it"


def test_a_file_cut_anywhere_is_no_certificate(tmp_path: Path) -> None:
    """A half-written disk block, a copy that ran full: never a shorter chain, never half a key."""
    shelf, file = on_disk(tmp_path)
    shelf.keep(NAME, OLD)
    whole = file.read_bytes()
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        assert shelf.kept(NAME) is None, length
    file.write_bytes(whole)
    assert shelf.kept(NAME) == OLD


class Killed(BaseException):
    """As if the process ended here."""


@pytest.mark.parametrize("step", ["open", "fchmod", "write", "fsync", "rename", "directory"])
def test_a_crash_anywhere_leaves_the_old_or_the_new(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, _ = on_disk(tmp_path)
    shelf.keep(NAME, OLD)
    real_fsync, calls = os.fsync, 0

    def end(*_: object, **__: object) -> None:
        raise Killed

    def end_at_directory(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Killed
        real_fsync(handle)

    with monkeypatch.context() as cut:
        if step == "directory":
            cut.setattr(os, "fsync", end_at_directory)
        else:
            cut.setattr(os, step, end)
        with pytest.raises(Killed):
            shelf.keep(NAME, NEW)
    expected = NEW if step == "directory" else OLD
    assert FileShelf(str(tmp_path / "routes"), PosixDisk()).kept(NAME) == expected
    assert shelf.names() == (NAME,)


def test_what_a_killed_process_left_half_written_is_nobodys_name(tmp_path: Path) -> None:
    shelf, file = on_disk(tmp_path)
    shelf.keep(NAME, OLD)
    (file.parent / ".holdfast-0123456789abcdef.tmp").write_bytes(OLD.chain)
    assert shelf.names() == (NAME,)


@pytest.mark.parametrize("content", [b"", b"junk", b"\xff" * 400_000, OLD.private + OLD.chain, OLD.chain, OLD.private])
def test_whatever_else_lies_there_is_not_believed(tmp_path: Path, content: bytes) -> None:
    shelf, file = on_disk(tmp_path)
    file.parent.mkdir()
    file.write_bytes(content)
    assert shelf.kept(NAME) is None
    shelf.keep(NAME, NEW)
    assert shelf.kept(NAME) == NEW


@pytest.mark.parametrize(
    "kept",
    [StoredCertificate(b"junk", b"junk"), StoredCertificate(OLD.chain, b""), StoredCertificate(b"", OLD.private)],
)
def test_what_is_no_chain_with_its_key_is_not_kept(tmp_path: Path, kept: StoredCertificate) -> None:
    shelf, _ = on_disk(tmp_path)
    with pytest.raises(Corrupt):
        shelf.keep(NAME, kept)
    assert shelf.names() == ()


@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".", "..", "a\0b", "*.example.test", ".holdfast-x.tmp"])
def test_no_name_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    shelf, _ = on_disk(tmp_path)
    with pytest.raises(Invalid):
        shelf.keep(name, OLD)
    with pytest.raises(Invalid):
        shelf.drop(name)
    assert shelf.kept(name) is None


def test_a_link_that_somebody_put_there_is_not_followed(tmp_path: Path) -> None:
    shelf, file = on_disk(tmp_path)
    file.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(OLD.chain + OLD.private)
    file.symlink_to(elsewhere)
    assert shelf.kept(NAME) is None
    with pytest.raises(HoldfastError):
        shelf.keep(NAME, NEW)
    assert elsewhere.read_bytes() == OLD.chain + OLD.private


def test_a_directory_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "routes").write_text("a file")
    with pytest.raises(Failed) as told:
        FileShelf(str(tmp_path / "routes"), PosixDisk()).names()
    assert told.value.remedy


def test_the_longest_hostname_fits(tmp_path: Path) -> None:
    shelf, _ = on_disk(tmp_path)
    long = ".".join(["a" * 62] * 4)[:253]
    shelf.keep(long, OLD)
    assert shelf.names() == (long,) and shelf.kept(long) == OLD
