"""What counts as an SSH public key (design §3: operators are their SSH keys)."""

import base64
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.errors import Invalid
from holdfast.model import ssh_key
from holdfast.model.ssh_key import PublicKey, fingerprint, line, pack, pack_integer, parse

SOURCE = os.path.dirname(os.path.dirname(holdfast.__file__))
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPcudlp7MP6JNL/cMlpWaS6J0dxou/8UqEe+OwfhyJ4r"
P256 = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBPljUp4bdf9FyiJGIxlwx7+l01MQGwYGs4vk"
    "gqpfvXfHaSSvQ6sb3teDlm0QKNb0tAuspwXiUG2WmrKkGVxtIU8="
)
SK_ED25519 = (
    "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIP87gQeQeWSq8e5U8S3NBsTVFWc4cXFzaVbq"
    "qIGHkPKuAAAABHNzaDo="
)
SK_P256 = (
    "sk-ecdsa-sha2-nistp256@openssh.com AAAAInNrLWVjZHNhLXNoYTItbmlzdHAyNTZAb3BlbnNzaC5jb20AAAAIbmlzdHAyNTYAAABB"
    "BDRYquvupvr1wvDY1eMTeglT2djSmV/OuaHBbdUwVwemMOUCJn0RxUPYhNcuYsaaFdvD9fxknA0g+BCPZhHP5BsAAAAEc3NoOg=="
)
PRINTED_BY_SSH_KEYGEN = {
    ED25519: "SHA256:osb9eUeyGAnkNej1P877jFd5u/mEvsJXUa3sfguJclM",
    P256: "SHA256:VYps8G6cYEQEsSzgiYPBvoj+gg7O1IXP4ssLbe+fq2M",
    SK_ED25519: "SHA256:NgVCyDVajtPEyQxjNwYnIx5AETnY5+yF+X9uLVXuaYU",
    SK_P256: "SHA256:/5h8vU/r5bbcK7u4vUANu37A0JfU2amE22o5KbxTnRw",
}


def text(type_: str, *values: bytes) -> str:
    return f"{type_} {base64.b64encode(pack(type_.encode(), *values)).decode()}"


def rsa(bits: int, exponent: int = 65537) -> str:
    return text("ssh-rsa", pack_integer(exponent), pack_integer((1 << bits) - 1))


@pytest.mark.parametrize("text", PRINTED_BY_SSH_KEYGEN)
def test_a_fingerprint_is_the_one_that_ssh_keygen_prints(text: str) -> None:
    assert fingerprint(parse(text)) == PRINTED_BY_SSH_KEYGEN[text]


@pytest.mark.parametrize("text", [*PRINTED_BY_SSH_KEYGEN, rsa(2048), rsa(16384)])
def test_a_line_read_and_written_is_the_same_line(text: str) -> None:
    assert line(parse(text)) == text


@pytest.mark.parametrize("suffix", ["", "\n", " \r\n", " ada@laptop", "  ada@laptop \n", "\tada@laptop\n"])
def test_the_comment_is_a_label_and_no_part_of_the_key(suffix: str) -> None:
    key = parse(ED25519 + suffix)
    assert key == PublicKey("ssh-ed25519", parse(ED25519).blob, suffix.strip())
    assert line(key) == ED25519


def test_a_comment_may_have_spaces_and_umlauts() -> None:
    assert parse(f"{ED25519} Jörg, second laptop").comment == "Jörg, second laptop"


POINT = b"\x04" + bytes(64)
MALFORMED = {
    "nothing": "",
    "a type alone": "ssh-ed25519",
    "no base64": "ssh-ed25519 !!!!",
    "base64 without its padding": SK_ED25519.rstrip("="),
    "base64 with loose last bits": SK_ED25519[:-2] + "p=",
    "base64 with a break in it": ED25519[:40] + "\n" + ED25519[40:],
    "another type inside": "ssh-rsa " + ED25519.split()[1],
    "a type in capitals": "SSH-ED25519 " + ED25519.split()[1],
    "a misspelt type inside": f"ssh-ed25519 {base64.b64encode(pack(b'ssh-ed25518', bytes(32))).decode()}",
    "a short point": text("ssh-ed25519", bytes(31)),
    "a long point": text("ssh-ed25519", bytes(33)),
    "a field too many": text("ssh-ed25519", bytes(32), b""),
    "a field too few": text("ssh-ed25519"),
    "trailing bytes": f"ssh-ed25519 {base64.b64encode(parse(ED25519).blob + b'x').decode()}",
    "an unsupported type": text("ssh-dss", b"\x01"),
    "a certificate": text("ssh-ed25519-cert-v01@openssh.com", bytes(32)),
    "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "an option": f"restrict {ED25519}",
    "a quoted option": f'command="rm -rf /" {ED25519}',
    "a quoted option with the type in it": f'from="ssh-ed25519" {ED25519}',
    "a principal as in allowed_signers": f"ada {ED25519}",
    "two lines": f"{ED25519}\n{ED25519}\n",
    "a terminal escape": f"{ED25519} \x1b[2J",
    "a byte order mark": f"\ufeff{ED25519}",
    "a long line": f"{ED25519} {'x' * ssh_key.LINE_CHARS_MAX}",
    "short RSA": rsa(2047),
    "huge RSA": rsa(16385),
    "RSA with an even exponent": rsa(2048, 4),
    "RSA with exponent one": rsa(2048, 1),
    "RSA with a huge exponent": rsa(2048, (1 << 65) + 1),
    "RSA with a negative modulus": text("ssh-rsa", b"\x03", b"\xff" * 257),
    "RSA with a padded modulus": text("ssh-rsa", b"\x03", b"\0\0" + b"\xff" * 256),
    "RSA with no modulus": text("ssh-rsa", b"\x03", b""),
    "another curve inside": text("ecdsa-sha2-nistp256", b"nistp384", POINT),
    "a compressed point": text("ecdsa-sha2-nistp256", b"nistp256", b"\x02" + bytes(32)),
    "a point in hybrid form": text("ecdsa-sha2-nistp256", b"nistp256", b"\x06" + bytes(64)),
    "a point of another curve": text("ecdsa-sha2-nistp384", b"nistp384", POINT),
    "an sk key without application": text("sk-ssh-ed25519@openssh.com", bytes(32)),
    "an sk key with empty application": text("sk-ssh-ed25519@openssh.com", bytes(32), b""),
    "an sk key with a binary application": text("sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", POINT, b"\0"),
}


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_key_is_refused_with_a_remedy(malformed: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(malformed)
    assert refused.value.message
    assert refused.value.remedy


def test_options_before_a_key_are_named_as_such() -> None:
    with pytest.raises(Invalid, match="options before"):
        parse(f'command="true" {ED25519}')


@pytest.mark.parametrize("text", PRINTED_BY_SSH_KEYGEN)
def test_a_key_cut_anywhere_is_refused(text: str) -> None:
    blob = parse(text).blob
    for size in range(len(blob)):
        with pytest.raises(Invalid):
            ssh_key.from_blob(blob[:size])


def test_a_key_made_past_the_parser_is_still_checked_when_its_fields_are_read() -> None:
    with pytest.raises(Invalid):
        ssh_key.fields(PublicKey("ssh-rsa", parse(ED25519).blob))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_key_or_refused_and_nothing_else(blob: bytes) -> None:
    try:
        assert ssh_key.from_blob(blob).blob == blob
    except Invalid as refused:
        assert refused.remedy


@given(st.text(max_size=200))
def test_arbitrary_text_is_a_key_or_refused_and_nothing_else(text: str) -> None:
    with pytest.raises(Invalid):
        parse(text)


@given(st.integers(min_value=1, max_value=1 << 600))
def test_a_number_has_one_encoding(value: int) -> None:
    assert ssh_key.integer(pack_integer(value)) == value
    with pytest.raises(ValueError, match="shortest"):
        ssh_key.integer(b"\0" + pack_integer(value))


def test_reading_keys_needs_no_cryptography() -> None:
    """Start-up budget: commands that only show keys do not load the cryptography library."""
    code = "import sys, holdfast.model.ssh_key; sys.exit('cryptography' in sys.modules or 'hashlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}).returncode == 0
