"""Files of opened secrets: exactly those asked for, for their container alone, gone when it is gone (S13)."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.adapters.secret_files.directory import DirectorySecretFiles
from holdfast.adapters.secret_files.memory import MemorySecretFiles
from holdfast.errors import Failed
from holdfast.ports.secret_files import SecretFiles


@pytest.fixture(params=["directory", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> SecretFiles:
    return (
        DirectorySecretFiles(str(tmp_path / "run" / "secrets")) if request.param == "directory" else MemorySecretFiles()
    )


def test_what_was_put_is_listed_until_it_is_forgotten(files: SecretFiles) -> None:
    paths = files.put("web-1", {"a": b"1", "b": b"2"})
    assert sorted(paths) == ["a", "b"] and all(os.path.isabs(path) for path in paths.values())
    files.put("web-2", {"a": b"3"})
    assert list(files.containers()) == ["web-1", "web-2"]
    files.forget("web-1")
    files.forget("web-1")
    files.forget("never-was")
    assert list(files.containers()) == ["web-2"]


def test_the_same_again_has_the_same_paths(files: SecretFiles) -> None:
    assert files.put("web", {"a": b"1"}) == files.put("web", {"a": b"2"})


def mode(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_on_a_machine_only_a_mount_leads_to_them(tmp_path: Path) -> None:
    root = tmp_path / "run" / "secrets"
    place = DirectorySecretFiles(str(root))
    old = os.umask(0)
    try:
        (path,) = place.put("web", {"tls.pem": b"value"}).values()
    finally:
        os.umask(old)
    assert path == str(root / "web" / "tls.pem") and Path(path).read_bytes() == b"value"
    assert (mode(str(root)), mode(str(root / "web")), mode(path)) == (0o700, 0o700, 0o444)


def test_a_file_that_is_right_keeps_its_inode_and_others_go(tmp_path: Path) -> None:
    """A running container has exactly that inode mounted."""
    place = DirectorySecretFiles(str(tmp_path / "secrets"))
    paths = place.put("web", {"a": b"1", "b": b"2", "c": b"3"})
    before = os.stat(paths["a"]).st_ino
    again = place.put("web", {"a": b"1", "b": b"other"})
    assert os.stat(again["a"]).st_ino == before and Path(again["b"]).read_bytes() == b"other"
    assert sorted(os.listdir(tmp_path / "secrets" / "web")) == ["a", "b"]


def test_what_a_crash_left_is_put_right(tmp_path: Path) -> None:
    place = DirectorySecretFiles(str(tmp_path / "secrets"))
    (path,) = place.put("web", {"a": b"value"}).values()
    half = tmp_path / "secrets" / "web" / ".a"
    half.write_bytes(b"va")
    os.chmod(path, 0o600)
    Path(path).write_bytes(b"va")
    place.put("web", {"a": b"value"})
    assert Path(path).read_bytes() == b"value" and not half.exists()


def test_a_link_planted_in_their_place_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "web").symlink_to(elsewhere)
    (elsewhere / "theirs").write_bytes(b"x")
    place = DirectorySecretFiles(str(tmp_path / "secrets"))
    with pytest.raises(Failed, match="another user"):
        place.put("web", {"a": b"value"})
    with pytest.raises(Failed, match="a symbolic link"):
        place.forget("web")
    assert os.listdir(elsewhere) == ["theirs"]


def test_only_files_are_lost_when_a_container_is_forgotten(tmp_path: Path) -> None:
    place = DirectorySecretFiles(str(tmp_path))
    place.put("web", {"a": b"value"})
    (tmp_path / "web" / "deeper").mkdir()
    with pytest.raises(Failed):
        place.forget("web")
    assert (tmp_path / "web" / "deeper").is_dir()


def test_a_place_that_cannot_be_written_is_a_failure_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes(b"a file")
    with pytest.raises(Failed) as caught:
        DirectorySecretFiles(str(tmp_path / "run" / "secrets")).put("web", {"a": b"value-canary"})
    assert caught.value.code == "secrets_unwritable" and "value-canary" not in caught.value.message
