"""Reading a fleet is quick, and costs no more imports than it needs."""

import subprocess
import sys
import time
from pathlib import Path

from holdfast.adapters.fleet_directory.posix import PosixFleetDirectory
from holdfast.declared.load import load
from tests.specs.declared.declared_fleets import FLEET

SOURCE = Path(__file__).parents[3] / "src"
SERVICE = """\
tier = "worker"
active = true

[[components]]
name = "web"
image = "registry.example.test/team/app:{number}"
cmd = ["serve", "--port", "8080"]
volumes = ["/srv/app{number}:/data"]

[[components.routes]]
name = "http"
port = 8080
hostname = "svc-{number}.example.test"
"""
CPU_S_MAX = 0.110


def test_a_thousand_services_load_within_110_ms(tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "fleet.toml").write_text(FLEET)
    for number in range(1_000):
        (tmp_path / "services" / f"s{number}.toml").write_text(SERVICE.format(number=number))

    def cpu_s() -> float:
        started = time.process_time()
        with PosixFleetDirectory(str(tmp_path)) as directory:
            assert len(load(directory).services) == 1_000
        return time.process_time() - started

    assert min(cpu_s() for _ in range(5)) <= CPU_S_MAX


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
