"""Reading a fleet costs no more imports than it needs."""

import subprocess
import sys
from pathlib import Path

from tests.specs.declared.declared_fleets import FLEET

SOURCE = Path(__file__).parents[3] / "src"


def test_a_fleet_without_mistakes_loads_nothing_that_only_explains_them(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(FLEET)
    script = f"""
import msgspec, sys
before = set(sys.modules)
from holdfast.adapters.fleet_directory.posix import PosixFleetDirectory
from holdfast.declared.load import load
with PosixFleetDirectory({str(tmp_path)!r}) as directory:
    load(directory)
print(*sorted(set(sys.modules) - before))
"""
    run = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.split())
    assert "tomli" in loaded
    heavy = {"difflib", "ipaddress", "dataclasses", "pathlib", "shlex", "json", "tomllib"}
    explaining = {f"holdfast.declared.{name}" for name in ("explain", "schema", "places", "reference", "starter")}
    assert loaded & (heavy | explaining) == set()
