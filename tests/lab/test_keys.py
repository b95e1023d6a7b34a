"""Every way to hold a key signs a revision through the real command line, and stock OpenSSH accepts what it signed."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.product import Place, make_key, new_place

pytestmark = pytest.mark.lab

SK_SOURCE = Path(__file__).parents[1] / "contracts" / "sk_dummy.c"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[dict[str, str]]:
    said = subprocess.run(
        ["ssh-agent", "-s", "-a", str(tmp_path / "agent")], capture_output=True, text=True, check=True
    ).stdout
    pid = re.search(r"SSH_AGENT_PID=(\d+)", said)
    assert pid
    try:
        yield {"SSH_AUTH_SOCK": str(tmp_path / "agent")}
    finally:
        os.kill(int(pid[1]), signal.SIGTERM)


@pytest.fixture(scope="module")
def security_key(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A security key in software, behind the SSH_SK_PROVIDER that OpenSSH asks for."""
    room = tmp_path_factory.mktemp("sk")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", room / "sk.so", SK_SOURCE, "-lcrypto"], check=True)
    askpass = room / "askpass"
    askpass.write_text("#!/bin/sh\necho 1234\n")
    askpass.chmod(0o700)
    return {
        "SSH_SK_PROVIDER": str(room / "sk.so"),
        "SSH_ASKPASS": str(askpass),
        "SSH_ASKPASS_REQUIRE": "force",
        "DISPLAY": ":",
    }


def accepted_by_openssh(place: Place, public: str) -> None:
    raw = subprocess.run(
        place.command("history", "show", "1", "--raw"),
        cwd=place.fleet,
        env=place.environ,
        check=True,
        capture_output=True,
    ).stdout
    signature = place.root / "revision.sig"
    signature.write_text(place.run("history", "show", "1", "--signature").ok().out)
    signers = place.root / "allowed_signers"
    signers.write_text("alice " + " ".join(public.split()[:2]) + "\n")
    verify = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", "alice", "-n", "holdfast-revision", "-s"]
    verify.append(str(signature))
    assert subprocess.run(verify, input=raw, capture_output=True).returncode == 0
    assert subprocess.run(verify, input=raw + b" ", capture_output=True).returncode != 0


def test_the_agent_is_asked_first_and_no_file_is_needed(tmp_path: Path, agent: dict[str, str]) -> None:
    key = tmp_path / "key"
    public = make_key(key)
    subprocess.run(["ssh-add", "-q", key], env={**os.environ, **agent}, check=True, capture_output=True)
    key.unlink()
    place = Place(tmp_path)
    (tmp_path / "home").mkdir()
    place.run("init", str(place.fleet), "--yes", env=agent).ok()
    assert public.split()[1] in (place.fleet / "fleet.toml").read_text()
    place.run("apply", "--yes", env=agent).ok()
    accepted_by_openssh(place, public)


def test_an_agent_without_an_operators_key_leaves_it_to_the_default_file(tmp_path: Path, agent: dict[str, str]) -> None:
    place = new_place(tmp_path)
    make_key(tmp_path / "other")
    subprocess.run(["ssh-add", "-q", tmp_path / "other"], env={**os.environ, **agent}, check=True, capture_output=True)
    place.run("apply", "--yes", env=agent).ok()
    accepted_by_openssh(place, place.key.with_suffix(".pub").read_text())


@pytest.mark.parametrize("kind", ["ed25519-sk", "ecdsa-sk"])
def test_a_security_key_signs_with_a_touch(tmp_path: Path, security_key: dict[str, str], kind: str) -> None:
    """A7, D23: `sk` keys, through OpenSSH's own middleware."""
    key = tmp_path / "sk"
    environ = {**os.environ, **security_key}
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", key], env=environ, check=True)
    place = new_place(tmp_path, "--key", str(key))
    place.run("apply", "--yes", "--key", str(key), env=security_key).ok()
    accepted_by_openssh(place, key.with_suffix(".pub").read_text())
    assert place.run("hub", "check", "--state-dir", ".ledger").ok().out.startswith("sound")


@pytest.mark.parametrize("kind", [["rsa", "-b", "3072"], ["ecdsa", "-b", "384"]])
def test_rsa_and_ecdsa_files_sign_too(tmp_path: Path, kind: list[str]) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", *kind, "-N", "", "-C", "", "-f", key], check=True)
    place = new_place(tmp_path, "--key", str(key))
    place.run("apply", "--yes", "--key", str(key)).ok()
    accepted_by_openssh(place, key.with_suffix(".pub").read_text())


def test_root_rotates_by_the_old_and_the_new_and_the_old_key_is_worth_nothing_after(tmp_path: Path) -> None:
    """design §3: trust changes like TUF roots."""
    place = new_place(tmp_path)
    place.run("apply", "--yes").ok()
    carol = tmp_path / "carol"
    line = make_key(carol)
    old = " ".join(place.key.with_suffix(".pub").read_text().split()[:2])
    place.replace("fleet.toml", 'name = "alice"', 'name = "carol"')
    place.replace("fleet.toml", old, line)
    place.run("apply", "--yes", "--json").refused(4)
    place.run("apply", "--yes", "--json", "--key", str(carol)).refused(4)
    place.run("plan", "-o", "../trust.plan").ok()
    place.run("sign", "../trust.plan", "--yes").ok()
    place.run("apply", "../trust.plan", "--yes", "--json").refused(4, "signature_required")
    place.run("sign", "../trust.plan", "--yes", "--key", str(carol)).ok()
    place.run("apply", "../trust.plan", "--yes").ok()
    place.service("later")
    place.run("apply", "--yes", "--json").refused(3, "unknown_signer")
    place.run("apply", "--yes", "--key", str(carol)).ok()
    assert place.run("hub", "check", "--state-dir", ".ledger").ok().out.startswith("sound: 3 revisions")
