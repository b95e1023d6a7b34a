"""Paths below a lab's directory."""

import os

from msgspec import Struct

# Per node: a folder below the lab's directory, and where it is mounted in the node.
MOUNTS = {"run": "/run", "data": "/srv", "state": "/var/lib/holdfast", "containers": "/var/lib/containers"}
OWN_MOUNTS = (*MOUNTS.values(), "/dev/shm", "/proc")  # noqa: S108 (a mount point, not a file)


class Place(Struct, frozen=True):
    """`root` is absolute, so that it does not depend on the working directory."""

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
        """Everything a lab puts here; the record is last, because `down` needs it."""
        names = ("nodes", "registry", "podman", "parts", "logs", "memory", "ca.pem")
        own = ("fleet", "operator", "operator.pub")
        return [self._below(name) for name in (*names, *own, "lab.lock", "lab.json")]
