"""Our age files are those of everybody: pyrage and Debian's age open them, and we open theirs; damage opens nowhere."""

import subprocess
from pathlib import Path

import pyrage
import pytest

from holdfast.adapters.sealing import age_stream
from holdfast.adapters.sealing.age_stream import CHUNK_BYTES, TAG_BYTES, Identity
from holdfast.adapters.sealing.identities import AgeIdentities
from holdfast.errors import Corrupt, Invalid
from holdfast.model import archive_key
from holdfast.model.archive import Purpose
from holdfast.model.archive_key import ArchiveKey
from holdfast.ports.sealing import CannotOpen

PAIR = AgeIdentities().fresh()
SIZES = (0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 20 * CHUNK_BYTES + 5)
STEP = CHUNK_BYTES + TAG_BYTES


def content(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


@pytest.mark.parametrize("size", SIZES)
def test_pyrage_opens_what_we_seal(size: int) -> None:
    identity = pyrage.x25519.Identity.from_str(PAIR.identity)
    assert pyrage.decrypt(age_stream.sealed(content(size), PAIR.recipient), [identity]) == content(size)


@pytest.mark.parametrize("size", SIZES)
def test_we_open_what_pyrage_seals(size: int) -> None:
    others = [AgeIdentities().fresh().recipient for _ in range(2)]
    recipients = [pyrage.x25519.Recipient.from_str(one) for one in (*others, PAIR.recipient)]
    assert Identity(PAIR.identity).open(pyrage.encrypt(content(size), recipients)) == content(size)


@pytest.mark.parametrize("size", SIZES)
def test_debians_age_and_we_open_each_others_files(size: int, tmp_path: Path) -> None:
    key, plain, ours, theirs = (tmp_path / name for name in ("key", "plain", "ours", "theirs"))
    key.write_text(PAIR.identity + "\n")
    plain.write_bytes(content(size))
    ours.write_bytes(age_stream.sealed(content(size), PAIR.recipient))
    opened = subprocess.run(["age", "-d", "-i", key, ours], capture_output=True, check=True, timeout=60)
    assert opened.stdout == content(size)
    subprocess.run(["age", "-r", PAIR.recipient, "-o", theirs, plain], check=True, timeout=60)
    assert Identity(PAIR.identity).open(theirs.read_bytes()) == content(size)


@pytest.mark.parametrize(
    "pieces", [(1, 70_000, 3), (CHUNK_BYTES, CHUNK_BYTES), (0, 0), (CHUNK_BYTES - 1, 1, 1), (5,) * 99]
)
def test_it_does_not_matter_in_which_pieces_content_comes(pieces: tuple[int, ...]) -> None:
    out: list[bytes] = []
    seal = age_stream.Seal(PAIR.recipient, lambda piece: out.append(bytes(piece)))
    for size in pieces:
        seal.add(content(size))
    seal.finish()
    assert Identity(PAIR.identity).open(b"".join(out)) == b"".join(map(content, pieces))


def damaged() -> list[tuple[str, bytes]]:
    whole = age_stream.sealed(content(3 * CHUNK_BYTES + 100), PAIR.recipient)
    begin = len(whole) - 3 * STEP - 100 - TAG_BYTES
    chunks = [whole[begin + n * STEP : begin + (n + 1) * STEP] for n in range(4)]
    head = whole[:begin]
    found = [
        ("a chunk is missing at the end", head + b"".join(chunks[:3])),
        ("chunks are exchanged", head + chunks[1] + chunks[0] + chunks[2] + chunks[3]),
        ("a chunk is there twice", head + chunks[0] + chunks[0] + chunks[1] + chunks[2] + chunks[3]),
        ("a chunk is missing", head + chunks[0] + chunks[2] + chunks[3]),
        ("something follows", whole + b"x"),
        ("another file follows", whole + whole),
        ("an empty last chunk follows", whole + bytes(TAG_BYTES)),
        ("nothing but a header", head),
        ("no header", whole[begin:]),
        ("", b""),
    ]
    found += [(f"cut at {at}", whole[:at]) for at in (1, 20, 100, begin - 1, begin + 1, begin + STEP, len(whole) - 1)]
    places = [*range(begin + 3), *range(begin + STEP - 3, begin + STEP + 3), len(whole) - 1, len(whole) - TAG_BYTES - 1]
    found += [(f"bit {at % 8} of byte {at}", _flipped(whole, at)) for at in places]
    return found


def _flipped(whole: bytes, at: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]


def test_nothing_that_was_changed_opens() -> None:
    opened = []
    for what, one in damaged():
        try:
            Identity(PAIR.identity).open(one)
            opened.append(what)
        except CannotOpen:
            pass
    assert opened == []


def test_another_key_does_not_open_it() -> None:
    with pytest.raises(CannotOpen):
        Identity(AgeIdentities().fresh().identity).open(age_stream.sealed(b"x", PAIR.recipient))


OTHER_END = PAIR.recipient[:-1] + ("p" if PAIR.recipient.endswith("q") else "q")


@pytest.mark.parametrize(
    "text",
    ["", "age1", "age1nonsense", OTHER_END, PAIR.recipient.title(), PAIR.identity],
    ids=["nothing", "prefix", "nonsense", "other end", "mixed case", "identity"],
)
def test_what_is_no_recipient_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        age_stream.sealed(b"x", text)


def test_an_identity_is_nowhere_in_texts() -> None:
    with pytest.raises(Invalid) as found:
        Identity(PAIR.identity[:-1] + "B")
    assert "AGE-SECRET-KEY-1" + PAIR.identity[16:30] not in str(found.value)
    key = ArchiveKey(Purpose("f" * 64, "web", 1), PAIR.identity)
    for text in (repr(Identity(PAIR.identity)), repr(PAIR), repr(key)):
        assert PAIR.identity not in text
    assert AgeIdentities().recipient_of(PAIR.identity) == PAIR.recipient


# ---- the key of a generation

PURPOSE = Purpose("f" * 64, "web", 3)


def test_a_key_file_is_an_identity_file_of_age(tmp_path: Path) -> None:
    text = archive_key.written(ArchiveKey(PURPOSE, PAIR.identity))
    assert archive_key.read(text, PURPOSE).identity == PAIR.identity
    (tmp_path / "key").write_bytes(text)
    sealed = age_stream.sealed(b"content", PAIR.recipient)
    done = subprocess.run(
        ["age", "-d", "-i", tmp_path / "key"], input=sealed, capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"content"


@pytest.mark.parametrize(
    "other", [Purpose("e" * 64, "web", 3), Purpose("f" * 64, "mail", 3), Purpose("f" * 64, "web", 2)]
)
def test_a_key_for_another_purpose_is_refused(other: Purpose) -> None:
    """D26, R12: archives swapped between services."""
    with pytest.raises(Corrupt, match="where the key for web, generation 3"):
        archive_key.read(archive_key.written(ArchiveKey(other, PAIR.identity)), PURPOSE)


@pytest.mark.parametrize("change", [b"", b"x", b"AGE-SECRET-KEY-1", b"\xff", b"# service: web\n" * 100])
def test_anything_else_is_no_key_file(change: bytes) -> None:
    text = archive_key.written(ArchiveKey(PURPOSE, PAIR.identity))
    for one in (change, change + text if change else text[:-1], text + (change or b"\n")):
        with pytest.raises(Corrupt):
            archive_key.read(one, PURPOSE)
