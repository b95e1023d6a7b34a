"""Data directories in memory, for tests and simulation. Passes the same contract suite as real directories."""

from collections.abc import Sequence

from holdfast.adapters.storage import permission
from holdfast.errors import Conflict, Failed
from holdfast.model.order import VerifiedOrder
from holdfast.ports.storage import DataDirectory


class MemoryStorage:
    """`contents` is the disk: name of a directory → its files. Counts what was destroyed, for tests."""

    def __init__(self, node: str, contents: dict[str, dict[str, bytes]] | None = None) -> None:
        self._node = node
        self.contents = contents if contents is not None else {}
        self.destroyed: list[str] = []

    def directories(self) -> Sequence[DataDirectory]:
        return [self._look(name) for name in sorted(self.contents) if not name.startswith(".")]

    def directory(self, name: str) -> DataDirectory | None:
        return self._look(name) if permission.check_name(name) in self.contents else None

    def _look(self, name: str) -> DataDirectory:
        files = self.contents[name]
        return DataDirectory(name, f"/memory/{name}", len(files), sum(map(len, files.values())))

    def create(self, name: str) -> DataDirectory:
        self.contents.setdefault(permission.check_name(name), {})
        return self._look(name)

    def set_aside(self, name: str) -> str:
        if permission.check_name(name) not in self.contents:
            raise Failed(f"there is no data directory {name}", remedy="check the name", code="not_found")
        number = 1
        while f".aside-{name}-{number}" in self.contents:
            number += 1
        self.contents[f".aside-{name}-{number}"] = self.contents.pop(name)
        return f"/memory/.aside-{name}-{number}"

    def remove_empty(self, name: str) -> None:
        if self.contents.get(permission.check_name(name)):
            raise Conflict(f"data.{name} is not empty", remedy="purge it with a signed order", code="not_empty")
        self.contents.pop(name, None)

    def condemn(self, name: str, proof: VerifiedOrder) -> None:
        permission.check(name, self._node, proof)
        aside = _aside(name, proof)
        if aside not in self.contents and name in self.contents:
            self.contents[aside] = self.contents.pop(name)

    def condemned(self, name: str, proof: VerifiedOrder) -> bool:
        return _aside(name, proof) in self.contents

    def destroy(self, name: str, proof: VerifiedOrder) -> None:
        self.condemn(name, proof)
        if self.contents.pop(_aside(name, proof), None) is not None:
            self.destroyed.append(name)


def _aside(name: str, proof: VerifiedOrder) -> str:
    return f".purging-{proof.order.id}-{name}"
