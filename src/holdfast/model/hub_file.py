"""What is in the one file of a hub, and what it says about itself. Values only."""

import re

import msgspec
from msgspec import Struct

from holdfast.errors import Corrupt
from holdfast.model.revision import Count, DigestText, Head

FORMAT = "holdfast-hub-1"
ABOUT = "hub.json"  # the first member of the tar
LEDGER = "ledger.db"
PARTS = (LEDGER, "hub.key", "hub.crt", "audit.head", "audit.jsonl")
NEEDED = (LEDGER, "hub.key")
ABOUT_BYTES_MAX = 64 * 1024
SEALED_BYTES_MAX = 4 << 30
PART_BYTES_MAX = 64 << 30
NAME = re.compile(r"hub-[0-9a-f]{12}-(\d{8}T\d{6}Z)-r(\d+)\.tar\.zst\.age")


class Part(Struct, frozen=True):
    size_bytes: Count
    sha256: DigestText


class About(Struct, frozen=True):
    format: str
    fleet: str
    head: Head
    generation: Count  # of the hub that made it; 0: it was never restored
    hub_key: str  # public line
    made_s: Count
    release: str
    files: dict[str, Part]


def name(about: About, stamp: str) -> str:
    """`stamp`: the time it was made, as 20261118T080000Z: names sort by age."""
    return f"hub-{about.fleet[:12]}-{stamp}-r{about.head.number}.tar.zst.age"


def decode(content: bytes) -> About:
    try:
        about = msgspec.json.decode(content, type=About)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise damaged(f"{ABOUT} in it cannot be read: {trouble}") from trouble
    if about.format != FORMAT:
        raise Corrupt(
            f"this file of a hub has the format {about.format[:40]!r}, and this release reads {FORMAT}",
            remedy="install the release that wrote it, or a newer one",
            code="hub_file_newer",
        )
    return about


def damaged(why: str) -> Corrupt:
    return Corrupt(
        f"this file of a hub is damaged: {why}",
        remedy="use another copy of it, or an older file",
        code="hub_file_damaged",
    )
