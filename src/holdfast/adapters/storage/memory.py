"""Data directories in memory, for tests and simulation."""

from collections.abc import Sequence

from holdfast.adapters.storage import permission
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid, NotPermitted
from holdfast.model.order import VerifiedOrder
from holdfast.ports.storage import Checkpoint, DataDirectory, Discardable

ROOT = "/memory"


class MemoryStorage:
    """`contents` is the disk: name of a directory → its files; a name that ends in "/" is a directory inside.
    `destroyed` lists what was destroyed. `troubles` are raised by checkpoint instead, one per attempt."""

    def __init__(self, node: str, contents: dict[str, dict[str, bytes]] | None = None) -> None:
        self._node = node
        self.contents = contents if contents is not None else {}
        self.destroyed: list[str] = []
        self.elsewhere: set[str] = {"/etc/hosts"}  # existing host paths outside the data directory
        self.copies: dict[tuple[str, str], tuple[Checkpoint, dict[str, bytes]]] = {}
        self.troubles: list[HoldfastError] = []
        self.passports: dict[str, bytes] = {}

    def directories(self) -> Sequence[DataDirectory]:
        return [self._look(name) for name in sorted(self.contents) if not name.startswith(".")]

    def directory(self, name: str) -> DataDirectory | None:
        return self._look(name) if permission.check_name(name) in self.contents else None

    def _look(self, name: str) -> DataDirectory:
        files = self.contents[name]
        plain = sum(not path.endswith("/") for path in files)
        return DataDirectory(name, f"{ROOT}/{name}", plain, sum(map(len, files.values())), len(files))

    def create(self, name: str) -> DataDirectory:
        self.contents.setdefault(permission.check_name(name), {})
        return self._look(name)

    def volume(self, service: str, name: str) -> str:
        permission.check_name(name)
        self.contents.setdefault(permission.check_name(service), {}).setdefault(f"{name}/", b"")
        return f"{ROOT}/{service}/{name}"

    def host_path(self, service: str, path: str) -> str:
        permission.check_name(service)
        if not path.startswith("/") or ".." in path.split("/"):
            raise Invalid(f"{path!r} is not an absolute path without '..'", remedy="write it without '..'")
        path = path.rstrip("/") or "/"
        root, _, inside = path.removeprefix(f"{ROOT}/").partition("/")
        if path.startswith(f"{ROOT}/."):
            raise NotPermitted(f"{path} belongs to the agent of this node", remedy="choose another path")
        if path.startswith(f"{ROOT}/") and root == service:
            files = self.contents.setdefault(service, {})
            if inside and inside not in files:
                files.setdefault(f"{inside}/", b"")
        elif path not in self.elsewhere:
            raise Failed(f"there is no {path}", remedy=f"mkdir -p {path}", code="no_such_path")
        return path

    def content(self, place: str) -> DataDirectory | None:
        service, _, rest = place.partition("/")
        files = self.contents.get(service)
        if files is None or (rest and not any(name == rest or name.startswith(rest + "/") for name in files)):
            return None
        inside = {name: text for name, text in files.items() if not rest or name == rest or name.startswith(rest + "/")}
        inside.pop(f"{rest}/", None)
        plain = sum(not name.endswith("/") for name in inside)
        names = sorted({name.removeprefix(rest).strip("/").split("/")[0] for name in inside})[:8]
        size_bytes = sum(map(len, inside.values()))
        return DataDirectory(place, f"{ROOT}/{place}", plain, size_bytes, len(inside), tuple(names))

    def passport(self, place: str) -> bytes | None:
        return self.passports.get(place)

    def keep_passport(self, place: str, text: bytes) -> None:
        permission.check_name(place.partition("/")[0])
        self.passports[place] = text

    def drop_passports(self, service: str, proof: VerifiedOrder) -> None:
        permission.check(service, self._node, proof)
        for place in [place for place in self.passports if place.partition("/")[0] == service]:
            del self.passports[place]

    def checkpoint(self, service: str, id: str, at_s: float) -> Checkpoint:
        if permission.check_name(service) not in self.contents:
            raise Failed(f"there is no data directory {service}", remedy="check the name", code="not_found")
        if (service, permission.check_id(id)) not in self.copies:
            if self.troubles:
                raise self.troubles.pop(0)
            files = dict(self.contents[service])
            path, size_bytes = f"{ROOT}/.checkpoints/{service}/{id}", sum(map(len, files.values()))
            self.copies[service, id] = Checkpoint(service, id, path, size_bytes, at_s), files
        return self.copies[service, id][0]

    def checkpoints(self) -> Sequence[Checkpoint]:
        return sorted((made for made, _ in self.copies.values()), key=lambda one: (one.service, one.made_s, one.id))

    def discard(self, proof: Discardable) -> None:
        self.copies.pop((proof.checkpoint.service, proof.checkpoint.id), None)

    def set_aside(self, name: str) -> str:
        if permission.check_name(name) not in self.contents:
            raise Failed(f"there is no data directory {name}", remedy="check the name", code="not_found")
        number = 1
        while f".aside-{name}-{number}" in self.contents:
            number += 1
        self.contents[f".aside-{name}-{number}"] = self.contents.pop(name)
        return f"{ROOT}/.aside-{name}-{number}"

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
