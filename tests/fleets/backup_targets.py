"""Targets for backup objects as tests meet them: keys, proofs, disks of their own, and every kind of target."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from holdfast.gate.authority import Authority
from holdfast.gate.copies import may_prune
from holdfast.gate.spare import There
from holdfast.model import backup_key
from holdfast.model.backup import Receipt, Stored, VerifiedReceipt
from holdfast.ports.backup_target import Prunable
from holdfast.trust import receipts
from tests.fleets.desks import key_of

FLEET = "f" * 64
MIB = 1024**2

# What is no key: each breaks one rule of the forms, and would be another file, another object or another service.
D = "0" * 64
G = "f" * 16
HOSTILE = (
    "", "/", ".", "..", "../x", "/etc/passwd", f"/{G}/web/g1/packs/{D}", f"{G}/web/g1/packs/{D}/", f"{G}//g1/packs/{D}",
    f"{G}/../g1/packs/{D}", f"{G}/web/../../{D}", f"{G}/web/g1/packs/../{D}", f"{G}/web/g1/packs/{D}\0",
    f"{G}/web\0/g1/packs/{D}", f"{G}/web/g1/packs/{D}\n", f"\n{G}/web/g1/packs/{D}", f"{G}/web/g1/packs/ {D}",
    f"{G.upper()}/web/g1/packs/{D}", f"{G}/Web/g1/packs/{D}", f"{G}/web/G1/packs/{D}", f"{G}/web/g1/PACKS/{D}",
    f"{G}/web/g1/packs/{'A' * 64}", f"{G}/web/g01/packs/{D}", f"{G}/web/g-1/packs/{D}", f"{G}/web/g1.0/packs/{D}",
    f"{G}/web/g9999999999/packs/{D}", f"{G}/web/g/packs/{D}", f"{G}/web/g1/pack/{D}", f"{G}/web/g1/receipts/{D}",
    f"{G}/web/receipts/1-{D}", f"{G}/web/receipts/000000001-{D}", f"{G}/web/receipts/{D}",
    f"{G}/web/receipts/٠٠٠٠٠٠٠١-{D}",
    f"{G}/wéb/g1/packs/{D}", f"{G}/web/g１/packs/{D}", f"{G}/-web/g1/packs/{D}", f"{G}/{'w' * 41}/g1/packs/{D}",
    f"{G}/web/g1/packs/{D[:-1]}", f"{G}/web/g1/packs/{D}0", f"{G}/web/g1/packs/{D}.tmp",
    f"{G}/web/g1/packs/.incoming-x",
    f"{G}/.holdfast-target", ".holdfast-target", f"{G}\\web\\g1\\packs\\{D}", f"{G}/web/g1/packs/%2e%2e", "x" * 100_000,
    f"{G}/web/g1/packs/{D}?x=1", f"{G}/web/g1/packs/{D}#x", f"{G}/we b/g1/packs/{D}", f"file://{G}/web/g1/packs/{D}",
)  # fmt: skip
HOSTILE_PREFIXES = (
    "",
    "/",
    "..",
    f"{G}",
    f"{G}/..",
    f"{G}/../",
    f"{G}/web",
    f"{G}/web/g1/packs",
    f"{G}/web/g1/x/",
    "*",
)


def pack(content: bytes, fleet: str = FLEET, service: str = "web", generation: int = 1) -> str:
    return backup_key.sealed(fleet, service, generation, "packs", content)


def bytes_of(name: str, size_bytes: int = 1000) -> bytes:
    """Incompressible, and the same for the same name."""
    block = b"".join(sha256(f"{name} {number}".encode()).digest() for number in range(min(size_bytes, MIB) // 32 + 1))
    return (block * (size_bytes // len(block) + 1))[:size_bytes]


def backup_of(sequence: int, *packs: bytes, node: str = "w1", service: str = "web", epoch: int = 1) -> VerifiedReceipt:
    """As this node verifies it: a receipt for these packs."""
    manifest, *stored = (Stored(sha256(one).hexdigest(), len(one)) for one in (b"manifest %d" % sequence, *packs))
    made = Receipt(1, FLEET, service, node, sequence, epoch, 1, 1000, "order", manifest, tuple(stored), 1, 1)
    return receipts.verify(receipts.sign(key_of(node), made), FLEET, service, {node: key_of(node).line})


def prunable(key: str) -> Prunable:
    """Made by the one who may: no kept backup needs the object."""
    service = backup_key.parse(key).service
    stays = There(backup_of(9, service=service), proven=True, read=True)
    authority = Authority("apply", None, 1, f"service.{service}")
    found = may_prune(key, [stays], all_known=True, node="w1", authority=authority)
    assert isinstance(found, Prunable)
    return found


# ---- disks


def run(*words: Any) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=120)


@contextmanager
def mounted(place: Path, size: str, kind: str = "tmpfs", options: str = "") -> Iterator[Path]:
    """A file system of its own: tmpfs, or ext4 in a file beside the place."""
    place.mkdir(exist_ok=True)
    image = place.with_name(place.name + ".image")
    if kind == "tmpfs":
        run("mount", "-t", "tmpfs", "-o", f"size={size}{options}", "tmpfs", place)
    else:
        run("truncate", "-s", size, image)
        run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
        run("mount", "-o", f"loop{options}", image, place)
    try:
        yield place
    finally:
        while subprocess.run(["umount", "-l", place], capture_output=True, timeout=60).returncode == 0:
            pass  # as often as it was mounted


def mounted_again(place: Path) -> None:
    """The disk is back. A copy of it: a mount namespace that another test made meanwhile keeps the old one alive."""
    image = place.with_name(place.name + ".image")
    again = image.with_name(image.name + "-again")
    for _ in range(50):  # until the old one is written
        if not subprocess.run(["losetup", "-j", image], capture_output=True, check=True).stdout:
            break
        time.sleep(0.1)
    run("cp", "--sparse=always", image, again)
    run("mount", "-o", "loop", again, place)


def files_in(place: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and "lost+found" not in path.parts
    }


Damage = Callable[[str, bytes], object]
