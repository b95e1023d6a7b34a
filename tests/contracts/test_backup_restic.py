"""A restic repository as a carrier when things go wrong: another one, a wrong password, killed in the middle."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.backup_target import restic as module
from holdfast.adapters.backup_target.restic import Restic, ResticTarget
from holdfast.errors import Conflict, HoldfastError, Invalid, NotPermitted, TryLater
from tests.fleets.backup_targets import bytes_of, mounted, pack, prunable
from tests.fleets.waiting import Stopwatch, wait_until

OBJECT = bytes_of("object", 400_000)


def do(call: Any) -> Any:
    return asyncio.run(asyncio.wait_for(call, 200))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Restic, str]:
    restic = Restic(str(tmp_path_factory.mktemp("restic") / "repository"), b"password of a test")
    return restic, do(restic.create())


def refused(call: Any, family: type[HoldfastError], code: str) -> None:
    with pytest.raises(family) as found:
        do(call)
    assert found.value.code == code, found.value.message
    assert "password of" not in found.value.message


def test_another_repository_and_none_are_missing_and_get_nothing_h49(
    repository: tuple[Restic, str], tmp_path: Path
) -> None:
    restic, durable_id = repository
    other = ResticTarget(restic, "0" * 64)
    assert (do(other.look()).state, do(other.look()).durable_id) == ("missing", durable_id)
    refused(other.put(pack(OBJECT), OBJECT), TryLater, "target_missing")
    nowhere = ResticTarget(Restic(str(tmp_path / "nowhere"), b"x"), durable_id)
    watch = Stopwatch()
    assert do(nowhere.look()).state == "missing" and watch.within(5)
    refused(nowhere.put(pack(OBJECT), OBJECT), TryLater, "target_missing")
    assert not (tmp_path / "nowhere").exists()


def test_a_wrong_password_is_refused(repository: tuple[Restic, str]) -> None:
    restic, durable_id = repository
    target = ResticTarget(Restic(restic.repository, b"wrong"), durable_id)
    assert do(target.look()).state == "refused"
    refused(target.put(pack(OBJECT), OBJECT), NotPermitted, "target_refused")


def test_location_and_password_are_in_no_argument_and_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "restic").write_text(
        "#!/bin/sh\ntr '\\0' '\\n' < /proc/$$/environ > seen; echo \"$@\" >> seen; sleep 1\n"
    )
    (tmp_path / "restic").chmod(0o755)
    monkeypatch.setattr(module, "_PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    do(Restic("rest:https://user:hidden-1@host/", b"hidden-2").run("snapshots"))
    seen = (tmp_path / "seen").read_text()
    assert "snapshots" in seen and "hidden" not in seen and "AWS" not in seen


def test_of_an_object_that_is_far_too_long_only_its_beginning_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program that knows the password stored it: it fills no memory."""
    (tmp_path / "restic").write_text(
        '#!/bin/sh\ncase "$*" in *snapshots*) cat list;; *) exec dd if=/dev/zero bs=1M count=4096 2> over;; esac\n'
    )
    (tmp_path / "restic").chmod(0o755)
    name = pack(OBJECT).replace("/", "_")
    (tmp_path / "list").write_text(f'[{{"id": "1", "paths": ["/{name}"], "tags": ["holdfast"]}}]')
    monkeypatch.setattr(module, "_PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    target = ResticTarget(Restic("x", b"x"), "0" * 64)
    refused(target.get(pack(OBJECT)), Conflict, "object_damaged")
    assert (tmp_path / "over").read_text() == "", "it was ended before it could say how much it wrote"
    monkeypatch.setattr(module, "LISTED_BYTES_MAX", 50)
    refused(target.get(pack(OBJECT)), TryLater, "target_failing")


def test_the_password_of_a_server_is_in_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever part of the address a program repeats."""
    (tmp_path / "restic").write_text(
        "#!/bin/sh\necho 'Fatal: https://user:hidden-1@host/config: no route' >&2; exit 1\n"
    )
    (tmp_path / "restic").chmod(0o755)
    monkeypatch.setattr(module, "_PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(HoldfastError) as found:
        do(Restic("rest:https://user:hidden-1@host/repository/", b"hidden-2").run("snapshots"))
    assert "no route" in found.value.message and "hidden" not in found.value.message


def test_a_process_that_does_not_end_is_killed_in_time_h49(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "restic").write_text("#!/bin/sh\necho $$ > pid; exec sleep 1000\n")
    (tmp_path / "restic").chmod(0o755)
    monkeypatch.setattr(module, "LOOK_S", 0.3)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(module, "_PATH", f"{tmp_path}:/usr/bin:/bin")
    state = do(ResticTarget(Restic("x", b"x"), "0" * 64).look())
    assert state.state == "missing" and "answer" in state.reason
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}/cmdline").exists(), "it has ended")


def test_a_writer_that_is_killed_stores_nothing_and_the_next_one_goes_on(repository: tuple[Restic, str]) -> None:
    """Its lock is of a process that is gone."""
    restic, durable_id = repository
    content = bytes_of("killed", 20_000_000)
    files = ["-r", restic.repository, "--no-cache", "--stdin-filename", pack(content).replace("/", "_")]
    words = ["restic", "backup", "--stdin", "--tag", "holdfast", *files]
    env = os.environ | {"RESTIC_PASSWORD": restic.password.decode()}
    process = subprocess.Popen(words, stdin=subprocess.PIPE, env=env, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(content[:10_000_000])
    process.stdin.flush()
    time.sleep(1)
    process.kill()
    process.communicate()

    async def live() -> None:
        target = ResticTarget(restic, durable_id)
        assert await target.has([pack(content)]) == set()
        await target.put(pack(content), content)
        assert await target.get(pack(content)) == content
        await target.delete(pack(content), prunable(pack(content)))
        await target.close()

    do(live())


def test_space_of_deleted_objects_is_freed_also_after_it_could_not_be_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restic = Restic(str(tmp_path / "repository"), b"x")
    durable_id, content = do(restic.create()), os.urandom(3_000_000)

    def stored_bytes() -> int:
        return sum(path.stat().st_size for path in (tmp_path / "repository" / "data").rglob("*") if path.is_file())

    async def live() -> None:
        target = ResticTarget(restic, durable_id)
        await target.put(pack(content), content)
        await target.put(pack(OBJECT), OBJECT)
        await target.delete(pack(content), prunable(pack(content)))
        assert stored_bytes() > len(content)
        with monkeypatch.context() as patch:
            patch.setattr(module, "PRUNE_S", 0.001)
            with pytest.raises(HoldfastError):
                await target.tidy()
        assert stored_bytes() > len(content)
        await target.tidy()
        assert stored_bytes() < len(content) and await target.get(pack(OBJECT)) == OBJECT

    do(live())


def test_a_full_disk_is_said_to_be_full_r05(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mounted(tmp_path / "disk", "12M") as disk:
        restic = Restic(str(disk / "repository"), b"x")
        durable_id = do(restic.create())
        content = os.urandom(20_000_000)
        monkeypatch.setattr(module, "OBJECT_S", 5.0)

        async def live() -> None:
            target = ResticTarget(restic, durable_id)
            with pytest.raises(HoldfastError) as found:
                await target.put(pack(content), content)
            assert found.value.code == "no_space", found.value.message
            assert await target.has([pack(content)]) == set()

        do(live())


@pytest.mark.parametrize("text", ["", "x", "0" * 63, "G" * 64, "0" * 65])
def test_a_durable_id_is_the_id_of_a_repository(text: str) -> None:
    with pytest.raises(Invalid):
        ResticTarget(Restic("/nowhere", b"x"), text)
