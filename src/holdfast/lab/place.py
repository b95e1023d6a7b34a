"""Where a lab keeps things below its directory."""

import os

from msgspec import Struct

# Host path below the lab's directory, for what each node has mounted at its own place.
MOUNTS = {"run": "/run", "data": "/srv", "state": "/var/lib/holdfast", "containers": "/var/lib/containers"}
OWN_MOUNTS = (*MOUNTS.values(), "/dev/shm", "/proc")  # noqa: S108 (a mount point, not a file)


class Place(Struct, frozen=True):
    """`root` is absolute, so that a lab is the same from every working directory."""

    root: str

    def _below(self, *names: str) -> str:
        return os.path.join(self.root, *names)

    @property
    def record(self) -> str:
        return self._below("lab.json")

    @property
    def lock(self) -> str:
        return self._below("lab.lock")

    @property
    def fleet(self) -> str:
        return self._below("fleet")

    @property
    def key(self) -> str:
        return self._below("operator")

    @property
    def memory(self) -> str:
        return self._below("memory")

    @property
    def podman(self) -> str:
        return self._below("podman")

    @property
    def registry(self) -> str:
        return self._below("registry")

    @property
    def bundle(self) -> str:
        return self._below("ca.pem")

    def log(self, part: str) -> str:
        return self._below("logs", f"{part}.log")

    def part(self, part: str) -> str:
        return self._below("parts", part)

    @property
    def nodes(self) -> str:
        return self._below("nodes")

    def node(self, name: str) -> dict[str, str]:
        return {kind: self._below("nodes", name, kind) for kind in MOUNTS}

    def contents(self) -> list[str]:
        """Everything a lab ever puts here; the record comes last, because `down` lives by it."""
        names = ("nodes", "registry", "podman", "parts", "logs", "memory", "ca.pem")
        own = ("fleet", "operator", "operator.pub")
        return [self._below(name) for name in (*names, *own, "lab.lock", "lab.json")]
