"""Every signer signs what we and stock OpenSSH accept, and nothing else passes (design §3; S07; A7)."""

import base64
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.adapters.signer.keyfile import FILE_BYTES_MAX, KeyfileSigner, public_half
from holdfast.adapters.signer.memory import MemorySigner
from holdfast.adapters.signer.ssh_agent import REPLY_BYTES_MAX, AgentSigner, identities
from holdfast.adapters.signer.ssh_keygen import SshKeygenSigner
from holdfast.errors import Corrupt, Failed, Invalid, NotPermitted, Unreachable
from holdfast.model import ssh_key
from holdfast.model.ssh_key import PublicKey
from holdfast.ports.signer import Signer
from holdfast.trust import sshsig
from tests.fleets.waiting import Stopwatch, wait_until

MESSAGE, NAMESPACE, PASSPHRASE, PIN = b"revision 7\0\xff", "holdfast-revision", "correct horse", "1234"
SOFTWARE = {
    "ed25519": ["-t", "ed25519"],
    "rsa": ["-t", "rsa", "-b", "2048"],
    "p256": ["-t", "ecdsa", "-b", "256"],
    "p384": ["-t", "ecdsa", "-b", "384"],
    "p521": ["-t", "ecdsa", "-b", "521"],
}
HARDWARE = {"sk-ed25519": ["-t", "ed25519-sk"], "sk-p256": ["-t", "ecdsa-sk"]}
ALL = {**SOFTWARE, **HARDWARE}
COUNTER = 0x01020304  # as sk_dummy.c says


def never(prompt: str) -> str:
    raise AssertionError(f"a person was asked: {prompt}")


def keygen(*args: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["ssh-keygen", *args], input=stdin, capture_output=True, env=env, timeout=60)


@pytest.fixture(scope="session")
def sk_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Our software security key, and a program that knows its PIN."""
    room = tmp_path_factory.mktemp("sk")
    source, library, askpass = Path(__file__).with_name("sk_dummy.c"), room / "sk_dummy.so", room / "askpass"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *warnings, "-shared", "-fPIC", "-o", library, source, "-lcrypto"], check=True, timeout=60)
    askpass.write_text(f"#!/bin/sh\necho {PIN}\n")
    askpass.chmod(0o700)
    asking = {"SSH_ASKPASS": str(askpass), "SSH_ASKPASS_REQUIRE": "force"}
    return {**os.environ, "SSH_SK_PROVIDER": str(library), **asking}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, sk_environment: dict[str, str]) -> Callable[..., str]:
    """Makes each kind of key once per run and answers its file."""
    room = tmp_path_factory.mktemp("keys")

    def make(kind: str, passphrase: str = "", *options: str) -> str:
        path = room / "-".join([kind, "locked" if passphrase else "open", *options[1:]])
        if not path.exists():
            args = ["-q", *ALL[kind], *options, "-N", passphrase, "-C", "ada@laptop", "-f", str(path)]
            done = keygen(*args, env=sk_environment)
            assert done.returncode == 0, done.stderr
        return str(path)

    return make


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory, sk_environment: dict[str, str]) -> Iterator[str]:
    yield from running_agent(tmp_path_factory.mktemp("agent"), sk_environment)


@pytest.fixture
def own_agent(tmp_path: Path, sk_environment: dict[str, str]) -> Iterator[str]:
    yield from running_agent(tmp_path, sk_environment)


def running_agent(room: Path, environment: dict[str, str]) -> Iterator[str]:
    path, providers = str(room / "agent"), os.path.dirname(environment["SSH_SK_PROVIDER"]) + "/*"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path, "-P", providers], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(path), "it answers")
        yield path
    finally:
        process.terminate()
        process.wait(60)


def answers(path: str) -> bool:
    """The path is there as soon as it is bound; only a connection tells that somebody listens."""
    with socket.socket(socket.AF_UNIX) as line:
        return line.connect_ex(path) == 0


def ssh_add(agent: str, environment: dict[str, str], *args: str) -> None:
    env = {**environment, "SSH_AUTH_SOCK": agent}
    done = subprocess.run(["ssh-add", *args], env=env, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


SIGNERS = [
    "memory",
    *(f"keyfile {kind}" for kind in SOFTWARE),
    *(f"keyfile {kind} locked" for kind in ("ed25519", "rsa", "p256")),
    *(f"agent {kind}" for kind in ALL),
    *(f"ssh-keygen {kind}" for kind in HARDWARE),
]


@pytest.fixture(scope="module", params=SIGNERS)
def signer(
    request: pytest.FixtureRequest, made: Callable[..., str], agent: str, sk_environment: dict[str, str]
) -> Signer:
    product, kind, locked = [*str(request.param).split(), "", ""][:3]
    if product == "memory":
        return MemorySigner(b"\x07" * 32)
    path = made(kind, PASSPHRASE if locked else "")
    if product == "keyfile":
        return KeyfileSigner(path, (lambda prompt: PASSPHRASE) if locked else never)
    if product == "ssh-keygen":
        return SshKeygenSigner(path, environment=sk_environment)
    ssh_add(agent, sk_environment, path)
    return AgentSigner(agent, public_half(path))


@pytest.fixture(scope="module")
def armoured(signer: Signer) -> str:
    return signer.sign(MESSAGE, NAMESPACE)


def stock_accepts(room: Path, key: PublicKey, armoured: str, message: bytes = MESSAGE, space: str = NAMESPACE) -> bool:
    (room / "allowed").write_text(f'ada namespaces="{NAMESPACE}" {ssh_key.line(key)}\n')
    (room / "signature").write_text(armoured)
    args = ["-Y", "verify", "-f", str(room / "allowed"), "-I", "ada", "-n", space, "-s", str(room / "signature")]
    return keygen(*args, stdin=message).returncode == 0


def refused(message: bytes, armoured: str, namespace: str, key: PublicKey) -> bool:
    try:
        sshsig.verify(message, armoured, namespace, key)
    except Corrupt as refusal:
        return refusal.code == "signature_invalid" and bool(refusal.remedy)
    return False


# --- the same promises of every signer ---


def test_what_a_signer_signs_we_accept(signer: Signer, armoured: str) -> None:
    facts = sshsig.verify(MESSAGE, armoured, NAMESPACE, signer.public_key)
    hardware = signer.public_key.type.startswith("sk-")
    assert (facts.touched, facts.counter) == ((True, COUNTER) if hardware else (False, 0))


def test_what_a_signer_signs_stock_openssh_accepts(signer: Signer, armoured: str, tmp_path: Path) -> None:
    assert stock_accepts(tmp_path, signer.public_key, armoured)
    assert not stock_accepts(tmp_path, signer.public_key, armoured, message=b"another")
    assert not stock_accepts(tmp_path, signer.public_key, armoured, space="holdfast-order")


def test_an_empty_message_can_be_signed(signer: Signer, tmp_path: Path) -> None:
    armoured = signer.sign(b"", NAMESPACE)
    sshsig.verify(b"", armoured, NAMESPACE, signer.public_key)
    assert stock_accepts(tmp_path, signer.public_key, armoured, message=b"")


def test_a_large_message_can_be_signed(signer: Signer) -> None:
    message = bytes(range(256)) * 4096 * 4
    sshsig.verify(message, signer.sign(message, NAMESPACE), NAMESPACE, signer.public_key)


@pytest.mark.parametrize("namespace", ["", "a\0b", "a\nb"])
def test_no_signer_signs_without_a_namespace(signer: Signer, namespace: str) -> None:
    with pytest.raises(Invalid):
        signer.sign(MESSAGE, namespace)


def test_a_namespace_that_looks_like_an_option_is_only_a_namespace(signer: Signer) -> None:
    sshsig.verify(MESSAGE, signer.sign(MESSAGE, "-Y"), "-Y", signer.public_key)


def test_the_fingerprint_is_the_one_stock_openssh_prints(signer: Signer, tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(ssh_key.line(signer.public_key) + "\n")
    printed = keygen("-l", "-f", str(tmp_path / "key.pub")).stdout.decode().split()
    assert printed[1] == ssh_key.fingerprint(signer.public_key)


def test_a_signature_is_good_for_its_message_namespace_and_key_only(signer: Signer, armoured: str) -> None:
    """S07: other message, other namespace, other key."""
    assert refused(MESSAGE + b"\0", armoured, NAMESPACE, signer.public_key)
    assert refused(MESSAGE[:-1], armoured, NAMESPACE, signer.public_key)
    assert refused(MESSAGE, armoured, "holdfast-order", signer.public_key)
    assert refused(MESSAGE, armoured, NAMESPACE, MemorySigner(b"\x08" * 32).public_key)


def test_a_signature_with_one_byte_changed_is_refused(signer: Signer, armoured: str) -> None:
    """S07: every seventh envelope byte, one bit and many bits."""
    for at in range(0, len(armoured), 7):
        for difference in (0x01, 0x20, 0x5A):
            changed = armoured[:at] + chr(ord(armoured[at]) ^ difference) + armoured[at + 1 :]
            assert refused(MESSAGE, changed, NAMESPACE, signer.public_key), at


def test_a_signature_with_one_inner_byte_changed_is_refused(signer: Signer, armoured: str) -> None:
    """S07: every byte of the inner signature, in intact armour."""
    blob = sshsig.parse(armoured).signature
    for at in range(len(blob)):
        changed = blob[:at] + bytes([blob[at] ^ 0x01]) + blob[at + 1 :]
        assert refused(MESSAGE, sshsig.armour(signer.public_key, NAMESPACE, changed), NAMESPACE, signer.public_key), at


def test_a_signature_cut_or_lengthened_is_refused(signer: Signer, armoured: str) -> None:
    """S07: truncated, trailing garbage, armour twice."""
    for changed in (*(armoured[:size] for size in range(0, len(armoured), 7)), armoured + "x", armoured * 2):
        assert refused(MESSAGE, changed, NAMESPACE, signer.public_key)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("hash_algorithm", ["sha256", "sha512"])
def test_what_stock_openssh_signs_we_accept(
    kind: str, hash_algorithm: str, made: Callable[..., str], sk_environment: dict[str, str]
) -> None:
    args = ["-Y", "sign", "-n", NAMESPACE, "-O", f"hashalg={hash_algorithm}", "-f", made(kind)]
    done = keygen(*args, env=sk_environment, stdin=MESSAGE)
    armoured = done.stdout.decode()
    assert sshsig.parse(armoured).hash_algorithm == hash_algorithm
    facts = sshsig.verify(MESSAGE, armoured, NAMESPACE, public_half(made(kind)))
    assert facts.touched == kind.startswith("sk-")


# --- memory ---


def test_the_memory_signer_is_deterministic() -> None:
    assert MemorySigner(b"\x01" * 32).sign(MESSAGE, NAMESPACE) == MemorySigner(b"\x01" * 32).sign(MESSAGE, NAMESPACE)
    assert MemorySigner(b"\x01" * 32).public_key != MemorySigner(b"\x02" * 32).public_key


def test_a_seed_of_another_size_is_refused() -> None:
    with pytest.raises(Invalid):
        MemorySigner(b"short")


# --- key files ---


class Person:
    """Answers a prompt from a list, and remembers how often it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, prompt: str) -> str:
        self.asked += 1
        return self.answers.pop(0)


@pytest.fixture
def copied(tmp_path: Path, made: Callable[..., str]) -> Callable[..., Path]:
    def copy(kind: str, passphrase: str = "") -> Path:
        target = tmp_path / "id"
        shutil.copy(made(kind, passphrase), target)
        shutil.copy(made(kind, passphrase) + ".pub", tmp_path / "id.pub")
        return target

    return copy


def test_a_passphrase_is_asked_once_and_only_for_signing(made: Callable[..., str]) -> None:
    person = Person(PASSPHRASE)
    signer = KeyfileSigner(made("ed25519", PASSPHRASE), person)
    assert (signer.public_key.type, person.asked) == ("ssh-ed25519", 0)
    signer.sign(MESSAGE, NAMESPACE)
    signer.sign(MESSAGE, NAMESPACE)
    assert person.asked == 1


def test_a_locked_key_is_identified_even_without_its_pub_file(copied: Callable[..., Path]) -> None:
    path = copied("ed25519", PASSPHRASE)
    with_pub = KeyfileSigner(str(path), never).public_key
    path.with_name("id.pub").unlink()
    assert KeyfileSigner(str(path), never).public_key.blob == with_pub.blob


def test_the_third_attempt_at_a_passphrase_still_counts(made: Callable[..., str]) -> None:
    person = Person("wrong", "", PASSPHRASE)
    KeyfileSigner(made("rsa", PASSPHRASE), person).sign(MESSAGE, NAMESPACE)
    assert person.asked == 3


def test_after_three_wrong_passphrases_the_signer_gives_up(made: Callable[..., str]) -> None:
    person = Person("wrong", "Correct horse", PASSPHRASE + " ", PASSPHRASE)
    with pytest.raises(NotPermitted, match="3 wrong passphrases"):
        KeyfileSigner(made("ed25519", PASSPHRASE), person).sign(MESSAGE, NAMESPACE)
    assert person.asked == 3


def test_unlocking_leaves_the_locked_file_as_it_was(copied: Callable[..., Path]) -> None:
    path = copied("ed25519", PASSPHRASE)
    before = path.read_bytes()
    KeyfileSigner(str(path), Person(PASSPHRASE)).sign(MESSAGE, NAMESPACE)
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == ["id", "id.pub"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_private_key_that_others_can_reach_is_refused(copied: Callable[..., Path], mode: int) -> None:
    path = copied("ed25519")
    path.chmod(mode)
    with pytest.raises(NotPermitted) as refusal:
        KeyfileSigner(str(path), never).sign(MESSAGE, NAMESPACE)
    assert refusal.value.remedy == f"chmod 600 {path}"


def test_the_public_half_given_as_the_key_is_named_as_such(copied: Callable[..., Path]) -> None:
    path = copied("ed25519")
    path.with_name("id.pub").chmod(0o644)
    with pytest.raises(NotPermitted, match="is the public half of a key") as refusal:
        KeyfileSigner(str(path) + ".pub", never).sign(MESSAGE, NAMESPACE)
    assert refusal.value.remedy == f"give the private half: --key {path}"


@pytest.mark.parametrize("passphrase", ["", PASSPHRASE])
def test_a_pub_file_of_another_key_is_corruption(
    copied: Callable[..., Path], made: Callable[..., str], passphrase: str
) -> None:
    path = copied("ed25519", passphrase)
    shutil.copy(made("p256") + ".pub", f"{path}.pub")
    with pytest.raises(Corrupt, match="not the public half"):
        KeyfileSigner(str(path), Person(passphrase)).sign(MESSAGE, NAMESPACE)


def test_a_pub_file_that_is_none_is_named(copied: Callable[..., Path]) -> None:
    path = copied("ed25519")
    for content in (b"ssh-ed25519 nonsense\n", b"\xff\xfe"):
        path.with_name("id.pub").write_bytes(content)
        with pytest.raises(Invalid, match=r"id\.pub"):
            _ = KeyfileSigner(str(path), never).public_key


@pytest.mark.parametrize("content", [b"", b"hello", b"\0" * 70_000, b"-----BEGIN RSA PRIVATE KEY-----\nx\n"])
def test_a_file_that_is_no_openssh_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "id"
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(Invalid):
        KeyfileSigner(str(path), never).sign(MESSAGE, NAMESPACE)


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_that_is_no_key_at_all_is_not_made_private(tmp_path: Path, mode: int) -> None:
    """Neither chmod nor ssh-keygen makes a key of it."""
    path = tmp_path / "fleet.toml"
    path.write_text('[fleet]\nname = "a"\n')
    path.chmod(mode)
    with pytest.raises(Invalid, match="is not a key file") as refusal:
        _ = KeyfileSigner(str(path), never).public_key
    assert refusal.value.remedy == "give a private key file, such as ~/.ssh/id_ed25519: --key FILE"


def test_a_missing_key_a_directory_and_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("absent", "", "pipe"):
        with pytest.raises(Invalid):
            KeyfileSigner(str(tmp_path / name), never).sign(MESSAGE, NAMESPACE)


@pytest.mark.parametrize("passphrase", ["", PASSPHRASE])
def test_a_key_file_cut_anywhere_fails_with_a_remedy(copied: Callable[..., Path], passphrase: str) -> None:
    path = copied("ed25519", passphrase)
    lines = path.read_text().splitlines(keepends=True)
    path.with_name("id.pub").unlink()
    for kept in range(1, len(lines) - 1):
        path.write_text("".join([*lines[:kept], lines[-1]]))
        with pytest.raises(Corrupt) as failure:
            KeyfileSigner(str(path), never).sign(MESSAGE, NAMESPACE)
        assert failure.value.remedy


def test_damage_is_not_taken_for_a_wrong_passphrase(copied: Callable[..., Path]) -> None:
    path = copied("ed25519", PASSPHRASE)
    head, *body, foot = path.read_text().splitlines()
    blob = base64.b64decode("".join(body)).replace(b"aes256-ctr", b"aes999-ctr")
    path.write_text(f"{head}\n{base64.b64encode(blob).decode()}\n{foot}\n")
    with pytest.raises(Corrupt, match="damaged"):
        KeyfileSigner(str(path), Person(PASSPHRASE)).sign(MESSAGE, NAMESPACE)


def test_a_key_file_is_not_read_beyond_its_bound(copied: Callable[..., Path]) -> None:
    path = copied("ed25519")
    path.write_bytes(path.read_bytes() + b"\n" * FILE_BYTES_MAX)
    with pytest.raises(Invalid):
        KeyfileSigner(str(path), never).sign(MESSAGE, NAMESPACE)


def test_a_security_key_file_is_not_opened_as_a_key_file(made: Callable[..., str]) -> None:
    with pytest.raises(Invalid, match="security key"):
        KeyfileSigner(made("sk-ed25519"), never).sign(MESSAGE, NAMESPACE)


# --- ssh-agent ---


def test_an_agent_lists_what_it_holds(own_agent: str, made: Callable[..., str], sk_environment: dict[str, str]) -> None:
    assert identities(own_agent) == ()
    for kind in ALL:
        ssh_add(own_agent, sk_environment, made(kind))
    assert {key.blob for key in identities(own_agent)} == {public_half(made(kind)).blob for kind in ALL}
    assert {key.comment for key in identities(own_agent)} == {"ada@laptop"}


def test_an_agent_without_the_key_says_so(own_agent: str, made: Callable[..., str]) -> None:
    with pytest.raises(NotPermitted, match="lacks the key") as refusal:
        AgentSigner(own_agent, public_half(made("ed25519"))).sign(MESSAGE, NAMESPACE)
    assert "ssh-add" in refusal.value.remedy


def test_a_locked_agent_says_so(own_agent: str, made: Callable[..., str], sk_environment: dict[str, str]) -> None:
    ssh_add(own_agent, sk_environment, made("ed25519"))
    ssh_add(own_agent, sk_environment, "-x")  # the passphrase for locking comes from our askpass
    assert identities(own_agent) == ()
    with pytest.raises(NotPermitted, match="locked") as refusal:
        AgentSigner(own_agent, public_half(made("ed25519"))).sign(MESSAGE, NAMESPACE)
    assert "ssh-add -X" in refusal.value.remedy


def test_a_person_who_does_not_confirm_is_told_how(
    tmp_path: Path, made: Callable[..., str], sk_environment: dict[str, str]
) -> None:
    denying = {**os.environ, "SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force"}
    path = str(tmp_path / "agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], env=denying, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: os.path.exists(path), "its socket exists")
        ssh_add(path, sk_environment, "-c", made("ed25519"))
        with pytest.raises(NotPermitted, match="refused to sign"):
            AgentSigner(path, public_half(made("ed25519"))).sign(MESSAGE, NAMESPACE)
    finally:
        process.terminate()
        process.wait(60)


def test_no_agent_at_all_is_unreachable(tmp_path: Path) -> None:
    stale = tmp_path / "stale"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(stale))
    (tmp_path / "file").touch()
    for path in ("", str(tmp_path / "absent"), str(stale), str(tmp_path / "file"), "/tmp/" + "x" * 200):
        with pytest.raises(Unreachable) as failure:
            identities(path)
        assert "ssh-agent" in failure.value.remedy


def test_an_agent_that_nobody_named_is_asked_for_by_name() -> None:
    with pytest.raises(Unreachable, match="SSH_AUTH_SOCK"):
        identities("")


def test_an_agent_of_somebody_else_is_not_permitted(
    played: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may talk to every agent, so the kernel's refusal is played."""

    class Refusing(socket.socket):
        def connect(self, address: object) -> None:
            raise PermissionError(13, "Permission denied")

    path = played(b"")
    monkeypatch.setattr(socket, "socket", Refusing)
    with pytest.raises(NotPermitted, match="another user"):
        identities(path)


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """An agent that answers each request with the given bytes, then hangs up or stays silent."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "played"))
    listener.listen()
    done = threading.Event()

    def serve(answer: bytes, silent: bool) -> None:
        while not done.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.recv(65536)
                peer.sendall(answer)
                if silent:
                    done.wait(60)

    threads: list[threading.Thread] = []

    def play(answer: bytes, silent: bool = False) -> str:
        threads.append(threading.Thread(target=serve, args=(answer, silent)))
        threads[-1].start()
        return str(tmp_path / "played")

    yield play
    done.set()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for thread in threads:
        thread.join(60)


@pytest.mark.parametrize("answer", [b"", b"\0\0", b"\0\0\0\x05\x0c", b"\0\0\x01\0\x0c\0\0\0\x01"])
def test_an_agent_that_vanishes_in_its_reply_is_unreachable(played: Callable[..., str], answer: bytes) -> None:
    with pytest.raises(Unreachable, match="closed the connection"):
        identities(played(answer))


def test_an_agent_that_stays_silent_is_given_up(played: Callable[..., str]) -> None:
    path = played(b"\0\0", silent=True)
    watch = Stopwatch()
    with pytest.raises(Unreachable, match=r"within 0\.2 s"):
        AgentSigner(path, MemorySigner(bytes(32)).public_key, timeout_s=0.2).sign(MESSAGE, NAMESPACE)
    assert watch.within(2)


NONSENSE = {
    "a reply of no bytes": b"\0\0\0\0",
    "a reply too large": (REPLY_BYTES_MAX + 1).to_bytes(4, "big"),
    "another answer": ssh_key.pack(b"\x06"),
    "more keys announced than listed": ssh_key.pack(b"\x0c\0\0\0\x02" + ssh_key.pack(b"a", b"b")),
    "a list cut short": ssh_key.pack(b"\x0c\0\0\0\x01\0\0\0\xff"),
    "a huge number of keys": ssh_key.pack(b"\x0c\xff\xff\xff\xff"),
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_an_agent_that_talks_nonsense_is_not_believed(played: Callable[..., str], answer: bytes) -> None:
    with pytest.raises(Failed, match="invalid reply"):
        identities(played(answer))


def test_keys_we_do_not_support_are_passed_over(played: Callable[..., str]) -> None:
    good = MemorySigner(bytes(32)).public_key
    listed = ssh_key.pack(ssh_key.pack(b"ssh-dss", b"x"), b"old", good.blob, b"good\x1b[2J")
    assert identities(played(ssh_key.pack(b"\x0c\0\0\0\x02" + listed))) == (PublicKey(good.type, good.blob, "good[2J"),)


def test_an_agent_that_signs_something_else_is_not_believed(played: Callable[..., str]) -> None:
    """An old agent would also answer an RSA request with SHA-1 here."""
    signature = ssh_key.pack(b"ssh-ed25519", bytes(64))
    path = played(ssh_key.pack(b"\x0e" + ssh_key.pack(signature)))
    with pytest.raises(NotPermitted, match="is invalid"):
        AgentSigner(path, MemorySigner(bytes(32)).public_key).sign(MESSAGE, NAMESPACE)


# --- ssh-keygen ---


@pytest.mark.parametrize("kind", HARDWARE)
def test_a_pin_is_visible_in_the_facts(
    kind: str, made: Callable[..., str], sk_environment: dict[str, str], tmp_path: Path
) -> None:
    signer = SshKeygenSigner(made(kind, "", "-O", "verify-required"), environment=sk_environment)
    armoured = signer.sign(MESSAGE, NAMESPACE)
    facts = sshsig.verify(MESSAGE, armoured, NAMESPACE, signer.public_key)
    assert facts == sshsig.SignatureFacts(touched=True, user_verified=True, counter=COUNTER)
    assert stock_accepts(tmp_path, signer.public_key, armoured)


@pytest.mark.parametrize("kind", HARDWARE)
def test_a_security_key_that_wants_no_touch_is_refused(
    kind: str, made: Callable[..., str], sk_environment: dict[str, str]
) -> None:
    """A7: malware on the operator's laptop must not sign alone."""
    signer = SshKeygenSigner(made(kind, "", "-O", "no-touch-required"), environment=sk_environment)
    with pytest.raises(NotPermitted, match="was not touched"):
        signer.sign(MESSAGE, NAMESPACE)


def test_without_the_security_key_ssh_keygen_explains_itself(made: Callable[..., str]) -> None:
    environment = {**os.environ, "SSH_SK_PROVIDER": "/nonexistent.so"}
    with pytest.raises(Failed, match="did not sign") as failure:
        SshKeygenSigner(made("sk-ed25519"), environment=environment).sign(MESSAGE, NAMESPACE)
    assert "plug" in failure.value.remedy


def pretending(room: Path, script: str) -> dict[str, str]:
    """An environment in which ssh-keygen is this script."""
    (room / "ssh-keygen").write_text(f"#!/bin/sh\n{script}\n")
    (room / "ssh-keygen").chmod(0o700)
    return {**os.environ, "PATH": f"{room}:{os.environ['PATH']}"}


def test_a_touch_that_does_not_come_ends_the_wait(made: Callable[..., str], tmp_path: Path) -> None:
    environment, watch = pretending(tmp_path, "exec sleep 30"), Stopwatch()
    with pytest.raises(Unreachable, match=r"not touched within 0\.3 s"):
        SshKeygenSigner(made("sk-ed25519"), timeout_s=0.3, environment=environment).sign(MESSAGE, NAMESPACE)
    assert watch.within(3)


def test_an_ssh_keygen_that_leaves_no_signature_or_a_wrong_one_is_not_believed(
    made: Callable[..., str], tmp_path: Path
) -> None:
    with pytest.raises(Failed, match="no signature"):
        SshKeygenSigner(made("sk-ed25519"), environment=pretending(tmp_path, "exit 0")).sign(MESSAGE, NAMESPACE)
    forged = pretending(tmp_path, 'for last; do :; done; echo nonsense > "$last.sig"')
    with pytest.raises(NotPermitted, match="is invalid"):
        SshKeygenSigner(made("sk-ed25519"), environment=forged).sign(MESSAGE, NAMESPACE)


def test_a_machine_without_ssh_keygen_is_told_what_to_install(made: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(Failed) as failure:
        SshKeygenSigner(made("sk-ed25519"), environment={"PATH": str(tmp_path)}).sign(MESSAGE, NAMESPACE)
    assert "install" in failure.value.remedy


def test_a_usual_key_signs_without_the_librarys_key_parser(made: Callable[..., str]) -> None:
    """Start-up budget: that parser takes 15 ms to load (ADR 0003)."""
    code = (
        "import sys; from holdfast.adapters.signer.keyfile import KeyfileSigner;"
        "print(KeyfileSigner(sys.argv[1], input).sign(b'x', 'file'));"
        "sys.exit('cryptography.hazmat.primitives.serialization' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, made("ed25519")], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == KeyfileSigner(made("ed25519"), never).sign(b"x", "file").strip()


@pytest.mark.parametrize("at", [40, 70, 100, 130, 160, 190, 220])
def test_a_usual_key_with_a_changed_byte_is_refused(made: Callable[..., str], tmp_path: Path, at: int) -> None:
    lines = Path(made("ed25519")).read_bytes().splitlines()
    blob = bytearray(base64.b64decode(b"".join(lines[1:-1])))
    blob[at] ^= 1
    path = tmp_path / "key"
    path.write_bytes(lines[0] + b"\n" + base64.encodebytes(bytes(blob)) + lines[-1] + b"\n")
    path.chmod(0o600)
    (tmp_path / "key.pub").write_bytes(Path(made("ed25519") + ".pub").read_bytes())
    with pytest.raises((Corrupt, Invalid)):
        KeyfileSigner(str(path), never).sign(MESSAGE, NAMESPACE)


def test_a_key_of_a_type_that_nobody_takes_is_not_to_be_written_again(tmp_path: Path) -> None:
    blob = ssh_key.pack(b"ssh-dss", b"x", b"x", b"x", b"x")
    (tmp_path / "old.pub").write_text(f"ssh-dss {base64.b64encode(blob).decode()} alice\n")
    with pytest.raises(Invalid, match="'ssh-dss' are not supported") as trouble:
        public_half(str(tmp_path / "old"))
    assert trouble.value.remedy.startswith("make a supported key: ssh-keygen -t ed25519")
