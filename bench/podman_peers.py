"""What people use today on one machine, on the same containers: a loop of `podman` commands, and podman-compose."""

import json
import os
import subprocess

from bench.bare_libpod import FIRST_PORT
from bench.ground import PEERS, PORT, Ground

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMPOSE = os.path.join(ROOT, "build", "podman-compose")
UV = os.path.join(ROOT, "build", "uv", "bin", "uv")


class PodmanLoop:
    """A script as one writes it: looks at each container, runs what is missing, replaces what changed."""

    name = "podman CLI loop"

    def __init__(self, ground: Ground, containers: int) -> None:
        self._ground, self._count = ground, containers
        self._address = ground.nodes[PEERS]["address"]

    def deploy(self) -> None:
        self._script("\n".join(self._run(number, f"b{number}", 0) for number in range(self._count)))

    def noop(self) -> None:
        names = " ".join(f"b{number}" for number in range(self._count))
        self._script(f"for n in {names}; do podman container exists $n || exit 1; done")

    def change(self) -> None:
        self.noop()
        self._script(f"{self._run(self._count, 'b0-new', 1)}\npodman stop -t 10 b0\npodman rm b0")

    def clear(self) -> None:
        self._script("podman rm --all --force --time 0")

    def _run(self, number: int, name: str, version: int) -> str:
        image = self._ground.images[version]
        options = f"--restart on-failure:5 --label bench.service={name} -p {self._address}:{FIRST_PORT + number}:{PORT}"
        return f"podman run --quiet --detach --name {name} {options} {image}"

    def _script(self, text: str) -> None:
        self._ground.inside(PEERS, "sh", "-ec", text)


class PodmanCompose:
    name = "podman-compose"

    def __init__(self, ground: Ground, containers: int) -> None:
        self._ground, self._count = ground, containers
        if not os.path.exists(os.path.join(COMPOSE, "bin", "podman-compose")):
            subprocess.run([UV, "venv", "--quiet", COMPOSE], check=True)
            subprocess.run([UV, "pip", "install", "--quiet", "--python", COMPOSE, "podman-compose"], check=True)
        self._file = os.path.join(ground.folder, "compose.json")  # JSON is YAML

    def deploy(self) -> None:
        self._write({})
        self._up()

    def noop(self) -> None:
        self._up()

    def change(self) -> None:
        self._write({0: 1})
        self._up()

    def clear(self) -> None:
        self._compose("down", "--timeout", "0")

    def _up(self) -> None:
        self._compose("up", "--detach", "--no-build")

    def _compose(self, *words: str) -> None:
        self._ground.inside(PEERS, os.path.join(COMPOSE, "bin", "podman-compose"), "-f", self._file, *words)

    def _write(self, versions: dict[int, int]) -> None:
        address = self._ground.nodes[PEERS]["address"]
        services = {
            f"b{number}": {
                "image": self._ground.images[versions.get(number, 0)],
                "restart": "on-failure:5",
                "ports": [f"{address}:{FIRST_PORT + number}:{PORT}"],
            }
            for number in range(self._count)
        }
        with open(self._file, "w", encoding="ascii") as file:
            json.dump({"services": services}, file)
