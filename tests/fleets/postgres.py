"""An image with Debian's PostgreSQL, of the files of the installed package. Its program initialises an empty volume."""

import os
import subprocess
import tarfile
from hashlib import sha256
from pathlib import Path

HOME = Path("/usr/lib/postgresql/15")
SHARE = "/usr/share/postgresql/15"
ZONES = ("UTC", "GMT", "Etc/UTC")
LOADER = "/lib64/ld-linux-x86-64.so.2"
UID = 971
IMAGE = "postgres:15"
KEPT = Path(__file__).parents[2] / "build" / "lab"

ENTRY = f"""#!/bin/sh
set -e
[ $# -eq 0 ] || exec "$@"
if [ ! -s /data/base/PG_VERSION ]; then
  {HOME}/bin/initdb --pgdata=/data/base --username=postgres --auth=trust --no-sync --locale=C --encoding=UTF8 >/dev/null
  echo "host all all all trust" >> /data/base/pg_hba.conf
fi
exec {HOME}/bin/postgres -D /data/base -c listen_addresses='*' -c jit=off -c timezone=UTC -c log_timezone=UTC
"""
CONTAINERFILE = """ARG REGISTRY
FROM ${REGISTRY}/hello:1
ADD root.tar /
USER 971:971
ENTRYPOINT ["/bin/entry"]
"""


def folder() -> Path:
    """For `lab image build`; made once for each version of the package."""
    asked = ["dpkg-query", "-W", "-f", "${Version}", "postgresql-15"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    recipe = version + ENTRY + CONTAINERFILE + Path(__file__).read_text()
    found = KEPT / f"postgres-{sha256(recipe.encode()).hexdigest()[:16]}"
    if not found.exists():
        half = found.with_name(f"{found.name}.{os.getpid()}")
        half.mkdir(parents=True)
        (half / "Containerfile").write_text(CONTAINERFILE)
        _root(half / "root.tar")
        try:
            half.rename(found)
        except OSError:  # another test was quicker
            assert found.exists()
    return found


def _root(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for inside in ("bin", "extension", "timezonesets", "tsearch_data"):
            _add(tar, f"{HOME}/bin" if inside == "bin" else f"{SHARE}/{inside}")
        for file in sorted(Path(SHARE).iterdir()):
            if file.is_file():
                _add(tar, str(file))
        libraries = [file for file in sorted((HOME / "lib").iterdir()) if file.is_file() and "llvm" not in file.name]
        for file in libraries:
            _add(tar, str(file))
        for needed in sorted({LOADER, *_needed([*sorted((HOME / "bin").iterdir()), HOME / "lib" / "plpgsql.so"])}):
            tar.add(os.path.realpath(needed), needed.lstrip("/"))
        for zone in ZONES:
            tar.add(os.path.realpath(f"/usr/share/zoneinfo/{zone}"), f"usr/share/zoneinfo/{zone}")
        for name in ("psql", "pg_dumpall", "pg_dump", "pg_isready"):
            _link(tar, f"bin/{name}", f"{HOME}/bin/{name}")
        _text(tar, "bin/entry", ENTRY, 0o755)
        _text(tar, "etc/passwd", f"root:x:0:0:root:/root:/bin/sh\npostgres:x:{UID}:{UID}::/tmp:/bin/sh\n", 0o644)
        _text(tar, "etc/group", f"root:x:0:\npostgres:x:{UID}:\n", 0o644)
        _directory(tar, "run/postgresql", 0o1777, 0)
        _link(tar, "var/run", "/run")
        _directory(tar, "data", 0o755, UID)
        _directory(tar, "tmp", 0o1777, 0)


def _needed(programs: list[Path]) -> list[str]:
    said = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True).stdout
    return [line.split("=>")[1].split()[0] for line in said.splitlines() if "=> /" in line]


def _add(tar: tarfile.TarFile, path: str) -> None:
    tar.add(path, path.lstrip("/"))


def _text(tar: tarfile.TarFile, name: str, text: str, mode: int) -> None:
    import io

    about = tarfile.TarInfo(name)
    about.size, about.mode = len(text), mode
    tar.addfile(about, io.BytesIO(text.encode()))


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    about = tarfile.TarInfo(name)
    about.type, about.linkname = tarfile.SYMTYPE, target
    tar.addfile(about)


def _directory(tar: tarfile.TarFile, name: str, mode: int, owner: int) -> None:
    about = tarfile.TarInfo(name)
    about.type, about.mode, about.uid, about.gid = tarfile.DIRTYPE, mode, owner, owner
    tar.addfile(about)
