"""restic as a carrier on other machines: Debian's SFTP server, and a server of its REST protocol (issue 15, H-47)."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from holdfast.adapters.backup_target import restic as module
from holdfast.adapters.backup_target.restic import Restic, ResticTarget
from holdfast.errors import HoldfastError, Invalid
from holdfast.model.fleet import Storage
from holdfast.model.storage_target import sftp as sftp_place
from holdfast.wiring.targets import opener
from tests.fleets.backup_targets import bytes_of, pack, prunable
from tests.fleets.rest_server import PASSWORD as REST_PASSWORD
from tests.fleets.rest_server import USER, RestServer, rest_server
from tests.fleets.sftp import Sftp, sftp
from tests.fleets.waiting import wait_until

PASSWORD = b"password of a test"
OBJECT, OTHER = bytes_of("object", 300_000), bytes_of("other", 2_000)


def do(call: Any) -> Any:
    return asyncio.run(asyncio.wait_for(call, 200))


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sftp]:
    with sftp(tmp_path_factory.mktemp("ssh") / "server") as found:
        yield found


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with rest_server(tmp_path_factory.mktemp("rest") / "server") as found:
        yield found


def declared(location: str, durable_id: str, sealed: str) -> ResticTarget:
    """As a node makes it out of a revision and a sealed value."""
    storage = Storage("vault", "restic", durable_id, location=location, nodes=("w1",), secret="keys")
    found = opener("/nowhere", "/nowhere")(storage, sealed.encode(), None)
    assert isinstance(found, ResticTarget)
    return found


async def carries(target: ResticTarget, durable_id: str) -> None:
    key, other = pack(OBJECT), pack(OTHER)
    assert (await target.look()).state == "attached" and (await target.look()).durable_id == durable_id
    for _ in range(2):
        await target.put(key, OBJECT)
    await target.put(other, OTHER)
    assert await target.get(key) == OBJECT and await target.has([key, other]) == {key, other}
    assert {one.key: one.size_bytes for one in await target.list(key[:17])} == {key: len(OBJECT), other: len(OTHER)}
    await target.delete(key, prunable(key))
    assert await target.get(key) is None and await target.get(other) == OTHER
    await target.close()


def sealed_ssh(ssh: Sftp) -> str:
    private, server = b64encode(ssh.login.private).decode(), ssh.login.server
    return f"RESTIC_PASSWORD={PASSWORD.decode()}\nRESTIC_SSH_KEY={private}\nRESTIC_SSH_HOST_KEY={server}\n"


def test_an_sftp_server_carries_objects_with_a_sealed_key_and_is_gone_and_back(ssh: Sftp) -> None:
    location = ssh.location("repository")
    durable_id = do(Restic(location, PASSWORD, ssh.login).create())
    target = declared(location, durable_id, sealed_ssh(ssh))
    do(carries(target, durable_id))
    ssh.kill()
    assert do(target.look()).state == "missing"
    with pytest.raises(HoldfastError) as found:
        do(declared(location, durable_id, sealed_ssh(ssh)).put(pack(OBJECT), OBJECT))
    assert found.value.code == "target_missing", found.value.message
    ssh.start()
    assert do(target.look()).state == "attached" and do(target.get(pack(OTHER))) == OTHER


def is_refused(target: ResticTarget, seen: set[str]) -> bool:
    seen.add(do(target.look()).state)
    return "refused" in seen


def test_a_stranger_is_refused_and_a_server_with_another_key_gets_nothing(ssh: Sftp) -> None:
    location = ssh.location("strange")
    for login in (ssh.login_with("stranger", "server"), ssh.login_with("client", "stranger")):
        target = ResticTarget(Restic(location, PASSWORD, login), "0" * 64)
        seen: set[str] = set()
        wait_until(partial(is_refused, target, seen), "it is refused; a busy server may close a connection before that")
        assert seen <= {"refused", "missing"}
        with pytest.raises(HoldfastError):
            do(Restic(location, PASSWORD, login).create())
    assert not (ssh.folder / "strange").exists()


@pytest.mark.parametrize(
    "sealed", ["RESTIC_PASSWORD=x", "RESTIC_PASSWORD=x\nRESTIC_SSH_KEY=%\nRESTIC_SSH_HOST_KEY=ssh-ed25519 A"]
)
def test_an_sftp_target_without_its_key_is_refused_with_a_remedy(sealed: str) -> None:
    with pytest.raises(Invalid) as found:
        declared("sftp:root@nas:/x", "0" * 64, sealed)
    assert found.value.code == "target_credentials" and "RESTIC_SSH_KEY=" in found.value.remedy


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("sftp:me@nas:/x", ("me", "nas", "")),
        ("sftp:nas:x/y", ("", "nas", "")),
        ("sftp://me@nas:2222//x", ("me", "nas", "2222")),
        ("sftp://[fd00::1]:22//x", ("", "fd00::1", "22")),
        ("sftp:-oProxyCommand=x:/x", None),
        ("sftp://-oProxyCommand=x/x", None),
        ("sftp:me@-x:/x", None),
        ("sftp:nas", None),
        ("sftp:a b:/x", None),
    ],
)
def test_a_location_names_a_user_and_a_host_and_no_option_of_ssh(
    location: str, place: tuple[str, str, str] | None
) -> None:
    assert sftp_place(location) == place


def test_a_rest_server_carries_objects_with_a_sealed_password_and_says_when_it_is_full(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable_id = do(Restic(rest.location(USER, REST_PASSWORD), PASSWORD).create())
    sealed = f"RESTIC_PASSWORD={PASSWORD.decode()}\nRESTIC_REST_USERNAME={USER}\nRESTIC_REST_PASSWORD="
    target = declared(rest.location(), durable_id, f"{sealed}{REST_PASSWORD}\n")
    do(carries(target, durable_id))
    assert not [line for line in rest.asked if REST_PASSWORD in line]
    assert do(declared(rest.location(), durable_id, f"{sealed}wrong\n").look()).state == "refused"
    rest.full = True
    monkeypatch.setattr(module, "OBJECT_S", 4.0)
    with pytest.raises(HoldfastError) as found:
        do(target.put(pack(OBJECT), OBJECT))
    assert found.value.code == "no_space" and REST_PASSWORD not in found.value.message, found.value.message
    rest.full = False
    monkeypatch.undo()
    do(target.put(pack(OBJECT), OBJECT))
    assert do(target.get(pack(OBJECT))) == OBJECT
