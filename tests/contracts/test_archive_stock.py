"""An archive is restorable without Holdfast, with the commands of the documentation and stock tools (issue 15)."""

import asyncio
import os
import re
import subprocess
from pathlib import Path

import pytest

from holdfast.adapters.sealing.age import AgeSealer
from holdfast.adapters.sealing.identities import AgeIdentities
from holdfast.model import archive_key
from holdfast.model.archive_key import ArchiveKey
from tests.fleets.archives import Place, facts, process_place

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "archive.md"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = process_place(tmp_path)
    tree = {f"d{n % 3}/file {n} ü": os.urandom(n * 321) for n in range(20)}
    place.write(
        {**tree, "long": os.urandom(21 << 20), "-rf": b"a name like an option", "*": b"star", "[a]": b"brackets"}
    )
    os.symlink("d0", place.top / "link")
    os.link(place.top / "-rf", place.top / "d1" / "hard")
    (place.top / "empty").mkdir()
    (place.top / "d2").chmod(0o700)
    os.chown(place.top / "long", 12, 13)
    os.setxattr(place.top / "*", "user.x", b"1")
    with open(place.top / "holes", "wb") as file:
        file.truncate(40 << 20)
        os.pwrite(file.fileno(), b"x", 30 << 20)
    return place


def test_the_commands_of_the_page_restore_everything(place: Place, tmp_path: Path) -> None:
    place.pack()
    place.write({"d0/file 3 ü": b"changed"})  # the first pack has an older version of it
    packed = place.pack()
    me = AgeIdentities().fresh()
    (tmp_path / "me").write_text(me.identity + "\n")
    target = tmp_path / "target"
    for name in ("keys", "packs", "manifests"):
        (target / name).mkdir(parents=True)
    key = archive_key.written(ArchiveKey(place.purpose, place.pair.identity))
    (target / "keys" / "k").write_bytes(AgeSealer().seal(key, [me.recipient]))
    (target / "manifests" / packed.digest).write_bytes(packed.manifest)
    for pack in packed.packs:
        (target / "packs" / pack.digest).write_bytes(place.store[pack.digest])
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL):
        environ = {"PATH": os.environ["PATH"], "ME": str(tmp_path / "me"), "MANIFEST": packed.digest}
        subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=target, env=environ, check=True, timeout=120)
    assert facts(target / "restored") == facts(place.top)


def test_an_export_is_a_tar_for_everybody(place: Place, tmp_path: Path) -> None:
    packed = place.pack()
    job, path = place.unpack_job(packed, "unused"), tmp_path / "export.tar.zst"
    asyncio.run(place.archiver.export(job, place.fetch, str(path), lambda progress: None))
    assert os.stat(path).st_mode & 0o777 == 0o600
    (tmp_path / "out").mkdir()
    command = ["tar", "--zstd", "-xpf", str(path), "--xattrs", "--numeric-owner", "-C", str(tmp_path / "out")]
    subprocess.run(command, check=True, timeout=120)

    def coarse(top: Path) -> dict[bytes, tuple[object, ...]]:
        """A tar has whole seconds."""
        return {name: (*one[:3], one[3] // 10**9, *one[4:]) for name, one in facts(top).items()}

    assert coarse(tmp_path / "out") == coarse(place.top)
    with pytest.raises(Exception, match="exists"):
        asyncio.run(place.archiver.export(job, place.fetch, str(path), lambda progress: None))
