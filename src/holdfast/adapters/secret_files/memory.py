"""Opened secrets in memory, for tests and simulation."""

from collections.abc import Mapping, Sequence


class MemorySecretFiles:
    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}

    def put(self, container: str, files: Mapping[str, bytes]) -> Mapping[str, str]:
        self.files[container] = dict(files)
        return {file: f"/run/holdfast/secrets/{container}/{file}" for file in files}

    def forget(self, container: str) -> None:
        self.files.pop(container, None)

    def containers(self) -> Sequence[str]:
        return sorted(self.files)
