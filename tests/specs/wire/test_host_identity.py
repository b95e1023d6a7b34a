"""A host signs its requests with a key it has anyway: who, when and all of what, in three headers (F-21…F-24)."""

import subprocess
from pathlib import Path

import pytest

from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.machine.host_key import adopt
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.errors import Unauthenticated
from holdfast.model import ssh_key
from holdfast.wire import http_signature

NOW_S = 1_760_000_000
NONCE = "A" * 22 + "=="
FLEET = "f" * 64
HUB = MemoryIdentityKey(b"h" * 32)
TO = ssh_key.fingerprint(ssh_key.parse(HUB.line))
BODY = b'{"node":"w1"}'


def signed(key: MemoryIdentityKey, body: bytes | None = BODY) -> dict[str, str]:
    return http_signature.sign(key, "POST", "/v1/check-in", body, FLEET, TO, NOW_S, NONCE)


def test_the_host_key_of_ssh_signs_requests(tmp_path: Path) -> None:
    """F-21: `agent join --host-key FILE`; the name under which the request goes is the line in the host's .pub file."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "host")]
    subprocess.run(words, check=True, timeout=20)
    key = adopt(str(tmp_path / "host"), str(tmp_path / "node.key"), PosixDisk(), SystemRandom())
    headers = http_signature.sign(key, "POST", "/v1/check-in", BODY, FLEET, TO, NOW_S, NONCE)
    parsed = http_signature.read("POST", "/v1/check-in", headers)
    http_signature.check_signature(parsed)
    http_signature.check_body(parsed, BODY)
    assert parsed.line == " ".join((tmp_path / "host.pub").read_text().split()[:2])


def test_host_time_and_signature_are_headers_of_one_line() -> None:
    """F-22, in the words of RFC 9421: `keyid` names the host, `created` the second, and the signature is base64."""
    key = MemoryIdentityKey(b"n" * 32)
    headers = signed(key)
    assert all(text.isprintable() and "\n" not in text for text in headers.values())
    assert f"created={NOW_S};" in headers["Signature-Input"]
    assert f'keyid="{key.line.split()[1]}"' in headers["Signature-Input"]
    assert headers["Signature"].startswith("holdfast=:") and headers["Signature"].endswith("==:")


@pytest.mark.parametrize(
    ("method", "target", "changed"),
    [
        ("PUT", "/v1/check-in", {}),
        ("POST", "/v1/join", {}),
        ("POST", "/v1/check-in?x=1", {}),
        ("POST", "/v1/check-in", {"Holdfast-Fleet": "e" * 64}),
        (
            "POST",
            "/v1/check-in",
            {"Holdfast-To": ssh_key.fingerprint(ssh_key.parse(MemoryIdentityKey(b"o" * 32).line))},
        ),
        ("POST", "/v1/check-in", {"Content-Digest": "sha-256=:" + "A" * 43 + "=:"}),
    ],
    ids=["method", "path", "query", "fleet", "recipient", "body"],
)
def test_more_than_time_and_body_is_signed(method: str, target: str, changed: dict[str, str]) -> None:
    """F-23, widened by design.md §3: also what is asked, of whom, and in which fleet; nothing of it can be swapped."""
    headers = signed(MemoryIdentityKey(b"n" * 32))
    parsed = http_signature.read("POST", "/v1/check-in", headers)
    http_signature.check_signature(parsed)
    assert str(NOW_S).encode() in parsed.base and b"content-digest" in parsed.base
    with pytest.raises(Unauthenticated):
        http_signature.check_signature(http_signature.read(method, target, headers | changed))


@pytest.mark.parametrize(("late_s", "good"), [(-61, False), (-60, True), (0, True), (60, True), (61, False)])
def test_a_signature_is_checked_with_the_claimed_key_and_is_recent(late_s: int, good: bool) -> None:
    """F-24: ±60 s. Whose key it is, the hub reads in the applied revision (tests/scenarios/test_enrolment.py)."""
    mine, other = MemoryIdentityKey(b"n" * 32), MemoryIdentityKey(b"m" * 32)
    parsed = http_signature.read("POST", "/v1/check-in", signed(mine))
    if good:
        http_signature.check_time(parsed, NOW_S + late_s)
    else:
        with pytest.raises(Unauthenticated) as refused:
            http_signature.check_time(parsed, NOW_S + late_s)
        assert refused.value.code == "clock_skew"
    claimed = signed(mine)
    claimed["Signature-Input"] = claimed["Signature-Input"].replace(mine.line.split()[1], other.line.split()[1])
    with pytest.raises(Unauthenticated):
        http_signature.check_signature(http_signature.read("POST", "/v1/check-in", claimed))
