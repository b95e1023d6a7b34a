"""S10: hostile archives do no harm. Each is sealed to the right key and named by the receipt, as if a node made it:
nothing outside of the directory changes, no device is made, disk and time are bounded, and the next one works."""

import base64
import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from holdfast.adapters.archive import member
from holdfast.adapters.sealing import age_stream
from holdfast.errors import HoldfastError
from holdfast.model.archive import FORMAT, Entry, Header, PackRow, Totals, line
from holdfast.ports.archive import Packed
from tests.fleets.archives import Place, facts, process_place

WITHIN_S = 30.0
Pack = Callable[[Place], bytes]  # the plaintext of a pack


def entry(path: str, type: str = "file", **more: Any) -> dict[str, Any]:
    return {"path": path, "type": type, "mode": 0o644, "uid": 0, "gid": 0, "mtime_ns": 0, **more}


TOP = entry("", "dir", mode=0o755)
TEXT = b"hello"
SHA = sha256(TEXT).hexdigest()


def file(path: str, **more: Any) -> dict[str, Any]:
    """`PACK` becomes the digest of the archive's only pack."""
    return entry(path, **{"size": len(TEXT), "sha256": SHA, "pack": "PACK", **more})


def tar(place: Place, *members: bytes, comment: str | None = None) -> bytes:
    return b"".join((member.first(comment or place.purpose.comment), *members, member.END))


def one(name: str, text: bytes = TEXT, kind: bytes = member.FILE, **more: Any) -> bytes:
    made = Entry(**{**entry("x"), **more})
    return member.header(made, name.encode(), kind, len(text), b"/etc/passwd" if kind != member.FILE else b"") + (
        text + bytes(member.padding(len(text)))
    )


def forge(place: Place, listing: list[dict[str, Any] | bytes], plain: bytes | None, **said: Any) -> Packed:
    """An archive as its author wants it: only digests and seals are right."""
    packs = []
    if plain is not None:
        packed = plain if said.pop("raw", False) else zstandard.ZstdCompressor(write_checksum=True).compress(plain)
        content = age_stream.sealed(packed, place.pair.recipient)
        digest = sha256(content).hexdigest()
        place.store[digest] = content
        packs = [PackRow(digest, len(content), 1, 1)]
    head = line(Header(format=FORMAT, purpose=place.purpose, node="w1", sequence=1))
    if "part_bytes" in said:
        head = head[:-2] + b',"part_bytes":' + said.pop("part_bytes") + b"}\n"
    lines = [one if isinstance(one, bytes) else msgspec.json.encode(one) + b"\n" for one in listing]
    known = [one for one in listing if isinstance(one, dict)]
    sizes = sum(one.get("size", 0) for one in known if not one.get("link"))
    stored = sum(sum(n for _, n in one["data"]) if one.get("data") else one.get("size", 0) for one in known)
    values = {"entries": len(listing), "files": sum(one["type"] != "dir" for one in known), "size_bytes": sizes}
    totals = Totals(**{**values, "stored_bytes": stored, "packs": tuple(packs), **said})
    body = b"".join((head, *lines, line(totals)))
    if packs:
        body = body.replace(b'"PACK"', f'"{packs[0].digest}"'.encode())
    manifest = age_stream.sealed(zstandard.ZstdCompressor().compress(body), place.pair.recipient)
    return Packed(
        manifest=manifest,
        digest=sha256(manifest).hexdigest(),
        packs=(),
        files=0,
        size_bytes=0,
        new_packs=0,
        new_bytes=0,
    )


GOOD: Pack = lambda place: tar(place, one("x"))  # noqa: E731
NONE: Pack | None = None


def listed(*entries: dict[str, Any] | bytes, pack: Pack | None = NONE, **said: Any) -> Any:
    return lambda place: forge(place, [TOP, *entries], pack(place) if pack else None, **said)


def bomb(size: int) -> bytes:
    """Zeros as one frame that says how long it is."""
    packer = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    return b"".join([*(packer.compress(bytes(16 << 20)) for _ in range(size >> 24)), packer.flush()])


def silent_bomb(size: int) -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join([*(packer.compress(bytes(16 << 20)) for _ in range(size >> 24)), packer.flush()])


def deep(levels: int) -> list[dict[str, Any]]:
    return [entry("/".join(["d"] * depth), "dir") for depth in range(1, levels + 1)]


BROKEN = bytearray(one("x"))
BROKEN[5] ^= 1
LONG = 1 << 40

REFUSED: dict[str, Callable[[Place], Packed]] = {
    "..": listed(file("../outside/x"), pack=GOOD),
    ".. inside": listed(entry("d", "dir"), file("d/../../outside/x"), pack=GOOD),
    "absolute": listed(file("/tmp/x"), pack=GOOD),
    "a dot": listed(file("./x"), pack=GOOD),
    "no name": listed(entry("d", "dir"), file("d//x"), pack=GOOD),
    "NUL": listed(file("x\0y"), pack=GOOD),
    "a name of 256 bytes": listed(file("n" * 256), pack=GOOD),
    "twice": listed(file("x"), file("x"), pack=GOOD),
    "not in order": listed(file("y"), file("x"), pack=GOOD),
    "no directory": listed(file("d/x"), pack=GOOD),
    "below a file": listed(file("x"), entry("x/y", "dir"), pack=GOOD),
    "below a symlink": listed(entry("link", "symlink", target="../outside"), entry("link/y", "dir")),
    "a symlink to nothing": listed(entry("link", "symlink")),
    "a symlink with content": listed(entry("link", "symlink", target="a", size=5, sha256=SHA, pack="PACK"), pack=GOOD),
    "a hard link to the outside": listed(entry("hard", link="../outside/secret")),
    "a hard link to an absolute path": listed(entry("hard", link="/etc/passwd")),
    "a hard link through a symlink": listed(
        entry("hard", link="out/secret"), entry("out", "symlink", target="../outside")
    ),
    "a hard link to nothing": listed(entry("hard", link="missing")),
    "a device": listed(entry("device", "char")),
    "a fifo": listed(entry("fifo", "fifo")),
    "a mode that is none": listed(entry("x", mode=0o100644)),
    "an owner that is none": listed(entry("x", uid=2**32 - 1)),
    "1 TiB without holes": listed(file("x", size=LONG, pack="", parts=[{"size": 4 << 20}] * (LONG >> 22))),
    "a hole beyond the end": listed(file("x", data=[[0, 4], [2, 99]]), pack=GOOD),
    "content in a hole": listed(file("x", data=[[0, 2]]), pack=GOOD),
    "parts that do not fit": listed(entry("x", size=5, parts=[{"size": 4, "sha256": SHA, "pack": "PACK"}]), pack=GOOD),
    "a longer member": listed(file("x"), pack=lambda place: tar(place, one("x", TEXT * 9))),
    "another content": listed(file("x"), pack=lambda place: tar(place, one("x", b"HELLO"))),
    "a missing member": listed(file("x"), pack=lambda place: tar(place, one("y"))),
    "a member twice": listed(file("x"), pack=lambda place: tar(place, one("x"), one("x"))),
    "a member outside": listed(file("x"), pack=lambda place: tar(place, one("x"), one("../outside/y"))),
    "an absolute member": listed(file("x"), pack=lambda place: tar(place, one("/tmp/y"), one("x"))),
    "a device as member": listed(file("x"), pack=lambda place: tar(place, one("x"), one("dev", b"", b"3"))),
    "a hard link as member": listed(file("x"), pack=lambda place: tar(place, one("h", b"", b"1"), one("x"))),
    "a symlink instead of a file": listed(file("x"), pack=lambda place: tar(place, one("x", b"", b"2"))),
    "a bad header": listed(file("x"), pack=lambda place: tar(place, bytes(BROKEN))),
    "a size that lies": listed(
        file("x"), pack=lambda place: tar(place, one("x")[:124] + b"77777777777" + one("x")[135:])
    ),
    "no end": listed(file("x"), pack=lambda place: tar(place, one("x"))[: -len(member.END)]),
    "a pack of another service": listed(file("x"), pack=lambda place: tar(place, one("x"), comment="holdfast-pack-1")),
    "a bomb in a pack": listed(file("x"), pack=lambda place: bomb(10 << 30), raw=True),
    "a bomb that does not say so": listed(file("x"), pack=lambda place: silent_bomb(1 << 30), raw=True),
    "a pack that is not compressed": listed(file("x"), pack=GOOD, raw=True),
    "fewer entries than it says": listed(*(entry(f"{n:07}") for n in range(1000)), entries=10**15),
    "5,000 levels": lambda place: forge(place, [TOP, *deep(5000)], None),
    "totals that lie": listed(file("x"), pack=GOOD, size_bytes=4),
    "no JSON": listed(b"{{{{\n"),
    "nested JSON": listed(b"[" * 100_000 + b"\n"),
    "no root": lambda place: forge(place, [file("x")], GOOD(place)),
    **{
        f"parts of {size.decode()} bytes": listed(part_bytes=size)
        for size in (b"0", b"-65536", b"32768", b"65537", b"8388608", b"1e30", b'"x"', b"null", b"65536.5")
    },
    "parts that are not as long as it says": listed(
        entry("x", size=8 << 20, data=[[0, 0]], parts=[{"size": 4 << 20}] * 2), part_bytes=b"65536"
    ),
    "a second end": listed(line(Totals(entries=1, files=0, size_bytes=0, stored_bytes=0, packs=()))),
}

# What is odd, but exactly what a file system may hold: it is made as the manifest says, and does no harm.
HARMLESS: dict[str, Callable[[Place], Packed]] = {
    "names that differ in case": listed(entry("A"), entry("a")),
    "a symlink to the outside": listed(entry("link", "symlink", target="../outside/secret")),
    "1 TiB of nothing": listed(entry("x", size=LONG, data=[[0, 0]], parts=[{"size": 4 << 20}] * (LONG >> 22))),
    "parts of 64 KiB of nothing": listed(
        entry("x", size=1 << 20, data=[[0, 0]], parts=[{"size": 65_536}] * 16), part_bytes=b"65536"
    ),
    "a member that the manifest does not name": listed(
        file("x"), pack=lambda place: tar(place, one("more", mode=0o6755), one("x", mode=0o6755))
    ),
    "2,000 levels": lambda place: forge(place, [TOP, *deep(2000)], None),
    "an attribute": listed(entry("x", xattrs={"user.a": base64.b64encode(b"b").decode()})),
}


def test_there_are_enough_of_them() -> None:
    assert len(REFUSED) + len(HARMLESS) >= 30


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = process_place(tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    yield place
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True, timeout=60)  # Python does not reach the deepest ones


def nodes(top: Path) -> list[int]:
    """Modes of everything that was made, also of what is deeper than a path can say."""
    found, waiting = [], [os.open(top, os.O_RDONLY | os.O_DIRECTORY)]
    while waiting:
        here = waiting.pop()
        with os.scandir(here) as entries:
            for each in entries:
                about = each.stat(follow_symlinks=False)
                found.append(about.st_mode)
                if stat.S_ISDIR(about.st_mode):
                    waiting.append(os.open(each.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=here))
        os.close(here)
    return found


def check_harmless(place: Place, outside: object) -> None:
    assert facts(place.folder / "outside") == outside, "the canary"
    for mode in nodes(place.folder / "restored"):
        assert stat.S_IFMT(mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) and not mode & 0o6000
    used = sum(f.stat().st_blocks * 512 for f in (place.folder / "restored").iterdir() if f.is_file())
    assert used < 64 << 20


def check_next(place: Place) -> None:
    place.write({"good": b"good"})
    place.unpack(place.pack(), "next")
    assert place.read("next") == {"good": b"good"}


@pytest.mark.parametrize("name", REFUSED)
def test_s10_a_hostile_archive_is_refused(place: Place, name: str) -> None:
    outside = facts(place.folder / "outside")
    packed = REFUSED[name](place)
    began_s = time.monotonic()
    with pytest.raises(HoldfastError) as found:
        place.unpack(packed)
    assert time.monotonic() - began_s < WITHIN_S and found.value.code in ("archive_damaged", "no_space")
    assert "Traceback" not in found.value.message
    check_harmless(place, outside)
    check_next(place)


@pytest.mark.parametrize("name", HARMLESS)
def test_s10_an_odd_archive_does_no_harm(place: Place, name: str) -> None:
    outside = facts(place.folder / "outside")
    place.unpack(HARMLESS[name](place))
    check_harmless(place, outside)
    check_next(place)
