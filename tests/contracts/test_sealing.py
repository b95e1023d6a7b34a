"""A sealed value opens with the keys it was sealed to and with no other; its outside says to whom (S13, I-12)."""

import errno
import io
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyrage
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing import age
from holdfast.adapters.sealing.memory import MemoryOpener, MemorySealer
from holdfast.errors import Corrupt, Invalid
from holdfast.model import sealed
from holdfast.ports.sealing import CannotOpen, Opener, Sealer
from tests.fleets.sealing import node_key, node_opener, person, person_file

Opening = Callable[[str], Opener]


def age_opener(name: str) -> Opener:
    return age.from_identity_file(person_file(name[1:]), "f") if name.startswith("@") else node_opener(name)


def memory_opener(name: str) -> Opener:
    return MemoryOpener(line_of(name))


def line_of(name: str) -> str:
    return person(name[1:]) if name.startswith("@") else node_key(name)


@pytest.fixture(params=["age", "memory"])
def pair(request: pytest.FixtureRequest) -> tuple[Sealer, Opening]:
    if request.param == "age":
        return age.AgeSealer(), age_opener
    return MemorySealer(SeededRandom("sealing")), memory_opener


def test_whoever_it_is_sealed_to_opens_it_and_nobody_else(pair: tuple[Sealer, Opening]) -> None:
    sealer, opening = pair
    content = sealer.seal(b"value", [line_of("@ada"), line_of("w1"), line_of("w2")])
    assert [opening(name).open(content) for name in ("@ada", "w1", "w2")] == [b"value"] * 3
    for other in ("@bob", "w3"):
        with pytest.raises(CannotOpen):
            opening(other).open(content)


def test_its_outside_says_to_whom_and_how_long_it_is_and_not_what(pair: tuple[Sealer, Opening]) -> None:
    sealer, _ = pair
    content = sealer.seal(b"the value itself", [line_of("@ada"), line_of("@bob"), line_of("w1")])
    seen = sealed.read(content)
    assert seen == sealed.Sealed(frozenset({sealed.tag_of(node_key("w1"))}), 2, 16)
    assert b"the value itself" not in content


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 30_000])
def test_any_bytes_come_back_as_they_were(pair: tuple[Sealer, Opening], size: int) -> None:
    sealer, opening = pair
    value = bytes(at % 256 for at in range(size))
    content = sealer.seal(value, [line_of("w1")])
    assert opening("w1").open(content) == value and sealed.read(content).size_bytes == size


def test_the_same_value_never_looks_the_same_twice(pair: tuple[Sealer, Opening]) -> None:
    sealer, _ = pair
    assert sealer.seal(b"value", [line_of("w1")]) != sealer.seal(b"value", [line_of("w1")])


def test_what_was_cut_or_changed_does_not_open(pair: tuple[Sealer, Opening]) -> None:
    sealer, opening = pair
    content = sealer.seal(b"value", [line_of("w1")])
    damaged = [content[:cut] for cut in range(0, len(content), 7)] + [content + b"x", b"", b"\0" * 300]
    damaged += [
        content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in range(len(content) - 60, len(content))
    ]
    for one in damaged:
        with pytest.raises(CannotOpen):
            opening("w1").open(one)


@pytest.mark.parametrize("size", [0, 31, 60_000])
def test_a_stream_is_the_same_file(pair: tuple[Sealer, Opening], size: int) -> None:
    sealer, opening = pair
    value, into, back = bytes(at % 256 for at in range(size)), io.BytesIO(), io.BytesIO()
    sealer.seal_stream(io.BytesIO(value), into, [line_of("@ada"), line_of("w1")])
    opening("w1").open_stream(io.BytesIO(into.getvalue()), back)
    assert back.getvalue() == value and opening("@ada").open(into.getvalue()) == value
    content = into.getvalue()
    for cut in (content[:-1], content[: len(content) // 2], content[:-1] + bytes([content[-1] ^ 1]), b""):
        with pytest.raises(CannotOpen):
            opening("w1").open_stream(io.BytesIO(cut), io.BytesIO())
    with pytest.raises(CannotOpen):
        opening("w2").open_stream(io.BytesIO(content), io.BytesIO())


def test_a_full_disk_is_not_taken_for_a_wrong_key(pair: tuple[Sealer, Opening]) -> None:
    sealer, opening = pair
    value = bytes(60_000)
    content = sealer.seal(value, [line_of("w1")])
    with open("/dev/full", "wb", buffering=0) as full:
        with pytest.raises(OSError) as sealing:
            sealer.seal_stream(io.BytesIO(value), full, [line_of("w1")])
        with pytest.raises(OSError) as opened:
            opening("w1").open_stream(io.BytesIO(content), full)
    assert [one.value.errno for one in (sealing, opened)] == [errno.ENOSPC] * 2


@pytest.mark.parametrize("recipients", [[], ["age1nonsense"], ["hello"], ["ssh-ed25519 AAAA"]])
def test_nobody_and_nonsense_are_no_recipients(pair: tuple[Sealer, Opening], recipients: list[str]) -> None:
    if recipients == ["age1nonsense"] and isinstance(pair[0], MemorySealer):
        return  # the twin knows no checksum of recipients
    with pytest.raises(Invalid):
        pair[0].seal(b"value", recipients)


def test_an_opener_does_not_show_its_key() -> None:
    assert "AGE-SECRET" not in repr(age_opener("@ada")) and repr(node_opener("w1")) == "AgeOpener()"


def test_what_is_no_key_is_said_to_be_none() -> None:
    with pytest.raises(Corrupt):
        age.from_ssh_key(b"nonsense", "node.key")
    with pytest.raises(Invalid, match="no age identity"):
        age.from_identity_file(b"", "identity.age")


# ---- the outside, read by our own reader


def test_it_is_the_format_that_others_write_too(tmp_path: Path) -> None:
    """An SSH key that OpenSSH made, sealed to by the library alone: the tag is the one we compute."""
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=60)
    line = Path(f"{path}.pub").read_text().strip()
    content = bytes(pyrage.encrypt(b"value", [pyrage.ssh.Recipient.from_str(line)]))
    assert sealed.read(content).tags == {sealed.tag_of(line)}
    assert age.from_ssh_key(path.read_bytes(), "key").open(content) == b"value"


def test_armour_is_taken_off_and_put_on_like_everybody_does() -> None:
    recipient = pyrage.x25519.Recipient.from_str(person("ada"))
    theirs = bytes(pyrage.encrypt(b"value", [recipient], armored=True))
    plain = sealed.bare(theirs)
    assert sealed.read(plain).anonymous == 1 and sealed.armoured(plain) == theirs
    assert sealed.bare(theirs.replace(b"\n", b"\r\n")) == plain == sealed.bare(plain)
    assert age_opener("@ada").open(plain) == b"value"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hunter2",
        b"age-encryption.org/v1\n",
        b"age-encryption.org/v2\n-> X25519 a\nb\n--- " + b"A" * 43 + b"\n" + b"x" * 32,
        b"age-encryption.org/v1\n--- " + b"A" * 43 + b"\n" + b"x" * 32,  # to nobody
        b"age-encryption.org/v1\n-> x-grease\n\n--- " + b"A" * 43 + b"\n" + b"x" * 32,
        b"age-encryption.org/v1\n-> ssh-ed25519 AAAA\nb\n--- " + b"A" * 43 + b"\n" + b"x" * 32,
        b"age-encryption.org/v1\n-> ssh-ed25519 AAAAAA\nb\n--- " + b"A" * 43 + b"\n" + b"x" * 32,
        b"age-encryption.org/v1\n-> ssh-ed25519 AAAAAAAA a\nb\n--- " + b"A" * 43 + b"\n" + b"x" * 32,
        b"age-encryption.org/v1\n-> X25519 a\nb\n--- " + b"A" * 42 + b"\n" + b"x" * 32,
        b"age-encryption.org/v1\n-> X25519 a\nb\n--- " + b"A" * 43 + b"\n" + b"x" * 31,  # no room for a seal
        b"age-encryption.org/v1\n-> X25519 a\nb\n--- " + b"A" * 43 + b"\n" + b"x" * 70_000,
        b"-----BEGIN AGE ENCRYPTED FILE-----\n!!!!\n-----END AGE ENCRYPTED FILE-----\n",
        b"-----BEGIN AGE ENCRYPTED FILE-----\naGVsbG8=\n",
    ],
)
def test_what_is_not_sealed_is_refused_in_words(content: bytes) -> None:
    with pytest.raises(sealed.NotSealed) as caught:
        sealed.read(sealed.bare(content))
    assert str(caught.value)


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=400) | st.binary(max_size=200).map(lambda tail: b"age-encryption.org/v1\n-> X25519 a\n" + tail)
)
def test_whatever_the_bytes_reading_them_is_an_answer_or_a_refusal(content: bytes) -> None:
    with suppress(sealed.NotSealed):
        assert sealed.read(sealed.bare(content)).size_bytes >= 0
