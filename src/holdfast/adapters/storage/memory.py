"""Data directories in memory, for tests and simulation."""

import tarfile
from collections.abc import Callable, Collection, Sequence

from holdfast.adapters.storage import permission
from holdfast.errors import Conflict, Failed, HoldfastError, Invalid, NotPermitted
from holdfast.ports.allowed import Allowed, check
from holdfast.ports.runtime import ImageDirectory
from holdfast.ports.storage import (
    MOUNTS,
    OVERWRITES,
    SETS_ASIDE,
    Ahead,
    Checkpoint,
    DataDirectory,
    Discardable,
    Disposable,
    Need,
    Placeable,
    Purgeable,
    Receivable,
    Restorable,
    Returnable,
    SetAside,
)

ROOT = "/memory"

Copies = dict[tuple[str, str], tuple[Checkpoint, dict[str, bytes]]]


class MemoryStorage:
    """`contents` is the disk: name of a directory → its files; a name that ends in "/" is a directory inside.
    `destroyed` lists what was destroyed. `troubles` are raised by checkpoint instead, one per attempt, and
    `troubles_ahead` by copy_ahead."""

    def __init__(self, node: str, contents: dict[str, dict[str, bytes]] | None = None) -> None:
        self._node = node
        self.contents = contents if contents is not None else {}
        self.destroyed: list[str] = []
        self.elsewhere: set[str] = {"/etc/hosts"}  # existing host paths outside the data directory
        self.copies: Copies = {}
        self.troubles: list[HoldfastError] = []
        self.troubles_ahead: list[HoldfastError] = []
        self.ahead: dict[str, dict[str, bytes]] = {}
        self.incoming: dict[tuple[str, str], dict[str, bytes]] = {}
        self.room_bytes, self.disk_bytes = 1 << 40, 1 << 41
        self.passports: dict[str, bytes] = {}
        self.owners: dict[str, str] = {}  # place → UID:GID of everything in it, where it is not 0:0
        self.modes: dict[str, int] = {}  # the same for the mode of the directory, where it is not 0755
        self.beside: dict[str, tuple[Copies, dict[str, bytes]]] = {}  # what was purged along with the data

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

    def volume(self, service: str, name: str, allowed: Allowed) -> str:
        check(allowed, MOUNTS, f"{ROOT}/{service}/{name}")
        permission.check_name(name)
        self.contents.setdefault(permission.check_name(service), {}).setdefault(f"{name}/", b"")
        return f"{ROOT}/{service}/{name}"

    def host_path(self, service: str, path: str, allowed: Allowed) -> str:
        check(allowed, MOUNTS, path)
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
        owner = self.owners.get(place, "0:0")
        return DataDirectory(place, f"{ROOT}/{place}", plain, size_bytes, len(inside), tuple(names), owner)

    def fill(self, service: str, name: str, image: ImageDirectory, owner: str, allowed: Allowed) -> bool:
        check(allowed, OVERWRITES, f"{ROOT}/{service}/{name}")
        place, (files, had, mode) = f"{service}/{name}", unpacked(image, name)
        if self.troubles:
            raise self.troubles.pop(0)
        there = self.content(place)
        if there is not None and there.entries:
            return False
        if sum(map(len, files.values())) > self.room_bytes:
            raise Failed(f"{place} does not fit", remedy="free space", code="no_space")
        self.contents.setdefault(service, {}).update({f"{name}/": b"", **files})
        self.owners[place], self.modes[place] = owner or had, mode
        return True

    def own(self, service: str, name: str, owner: str, allowed: Allowed) -> None:
        check(allowed, OVERWRITES, f"{ROOT}/{service}/{name}")
        self.owners[f"{service}/{name}"] = owner

    def passport(self, place: str) -> bytes | None:
        return self.passports.get(place)

    def keep_passport(self, place: str, text: bytes) -> None:
        permission.check_name(place.partition("/")[0])
        self.passports[place] = text

    def need(self, service: str, off: Collection[str] = ()) -> Need | None:
        if permission.check_name(service) not in self.contents:
            return None
        files = self._copy_of(service, off)
        held_bytes = sum(made.size_bytes for made, _ in self.copies.values())
        size_bytes = sum(map(len, files.values()))
        plain = sum(not path.endswith("/") for path in files)
        return Need(size_bytes, plain, size_bytes, self.room_bytes, self.disk_bytes, held_bytes)

    def copy_ahead(self, service: str, id: str, off: Collection[str], tell: Callable[[int], None]) -> Ahead:
        if permission.check_name(service) not in self.contents:
            raise Failed(f"there is no data directory {service}", remedy="check the name", code="not_found")
        permission.check_id(id)
        if self.troubles_ahead:
            raise self.troubles_ahead.pop(0)
        files = self._copy_of(service, off)
        tell(sum(map(len, files.values())))
        self.ahead[service] = files
        return Ahead(sum(map(len, files.values())), 0.5)

    def drop_ahead(self, service: str) -> None:
        self.ahead.pop(permission.check_name(service), None)

    def _copy_of(self, service: str, off: Collection[str]) -> dict[str, bytes]:
        return {name: text for name, text in self.contents[service].items() if name.split("/")[0] not in off}

    def checkpoint(self, service: str, id: str, at_s: float, off: Collection[str] = ()) -> Checkpoint:
        if permission.check_name(service) not in self.contents:
            raise Failed(f"there is no data directory {service}", remedy="check the name", code="not_found")
        if (service, permission.check_id(id)) not in self.copies:
            if self.troubles:
                raise self.troubles.pop(0)
            files = self._copy_of(service, off)
            path, size_bytes = f"{ROOT}/.checkpoints/{service}/{id}", sum(map(len, files.values()))
            plain = sum(not name.endswith("/") for name in files)
            made = Checkpoint(service, id, path, size_bytes, at_s, (), plain, tuple(sorted(off)))
            self.copies[service, id] = made, files
            self.ahead.pop(service, None)
        return self.copies[service, id][0]

    def checkpoints(self) -> Sequence[Checkpoint]:
        return sorted((made for made, _ in self.copies.values()), key=lambda one: (one.service, one.made_s, one.id))

    def discard(self, proof: Discardable) -> None:
        self.copies.pop((proof.checkpoint.service, proof.checkpoint.id), None)

    def set_aside(self, name: str, allowed: Allowed) -> str:
        check(allowed, SETS_ASIDE, f"data.{name}")
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

    def receive(self, proof: Receivable) -> str:
        self.incoming[permission.check_name(proof.service), permission.check_id(proof.id)] = {}
        return f"{ROOT}/.checkpoints/{proof.service}/.incoming-{proof.id}"

    def make_received(self, proof: Receivable, volume: str, image: ImageDirectory | None, owner: str) -> str:
        files = self.incoming[proof.service, proof.id]
        if not any(name.startswith(f"{permission.check_name(volume)}/") for name in files):
            files.update({f"{volume}/": b"", **(unpacked(image, volume)[0] if image is not None else {})})
        return f"{ROOT}/.checkpoints/{proof.service}/.incoming-{proof.id}/{volume}"

    def received(
        self, proof: Receivable, at_s: float, off: Collection[str] = (), drop: Collection[str] = ()
    ) -> Checkpoint:
        service, id = proof.service, proof.id
        if (service, id) not in self.copies:
            files = self.incoming.pop((service, id))
            files = {name: text for name, text in files.items() if name.partition("/")[0] not in drop}
            path, size_bytes = f"{ROOT}/.checkpoints/{service}/{id}", sum(map(len, files.values()))
            plain = sum(not name.endswith("/") for name in files)
            made = Checkpoint(service, id, path, size_bytes, at_s, (), plain, tuple(sorted(off)))
            self.copies[service, id] = made, files
        return self.copies[service, id][0]

    def drop_received(self, proof: Receivable) -> None:
        self.incoming.pop((permission.check_name(proof.service), permission.check_id(proof.id)), None)

    def resume(self, proof: Receivable) -> str | None:
        is_there = (permission.check_name(proof.service), permission.check_id(proof.id)) in self.incoming
        return f"{ROOT}/.checkpoints/{proof.service}/.incoming-{proof.id}" if is_there else None

    def take_in(self, proof: Placeable, drop: Collection[str] = ()) -> None:
        service, id = permission.check_name(proof.copy.service), permission.check_id(proof.copy.id)
        if (service, id) not in self.incoming:
            if service in self.contents:
                return
            raise Failed(f"there is no copy of {service}", remedy="look at the move", code="not_found")
        if self.contents.get(service):
            raise Conflict(f"data.{service} has content", remedy="set it aside", code="data_present")
        files = self.incoming.pop((service, id))
        self.contents[service] = {name: text for name, text in files.items() if name.partition("/")[0] not in drop}

    def stage(self, proof: Restorable) -> str:
        name, known = _staged(proof), (proof.checkpoint.service, proof.checkpoint.id)
        if known not in self.copies:
            raise Failed(f"there is no checkpoint {known[1]}", remedy="check the id", code="not_found")
        if name not in self.contents:
            if self.troubles:
                raise self.troubles.pop(0)
            self.contents[name] = dict(self.copies[known][1])
        return str(id(self.contents[name]))

    def exchange(self, proof: Restorable, staged: str, at_s: float) -> Checkpoint | None:
        service, name, old = proof.checkpoint.service, _staged(proof), proof.replaced
        there = self.contents.get(service)
        if name in self.contents and str(id(there)) != staged:
            restored, off = self.contents.pop(name), proof.checkpoint.off
            self.contents[service] = restored
            if there is not None:
                for file in [file for file in there if file.split("/")[0] in off]:
                    restored[file] = there.pop(file)
                path, size_bytes = f"{ROOT}/.checkpoints/{service}/{old}", sum(map(len, there.values()))
                plain = sum(not file.endswith("/") for file in there)
                self.copies[service, old] = Checkpoint(service, old, path, size_bytes, at_s, (), plain, off), there
        return self.copies[service, old][0] if (service, old) in self.copies else None

    def unstage(self, proof: Restorable) -> None:
        self.contents.pop(_staged(proof), None)

    def aside(self, name: str, order: str) -> str:
        return f"{ROOT}/{_aside(name, order)}"

    def condemn(self, proof: Purgeable) -> None:
        name, aside = proof.service, _aside(proof.service, proof.order)
        if aside not in {*self.contents, *self.beside}:
            if name in self.contents:
                self.contents[aside] = self.contents.pop(name)
            copies = {key: self.copies.pop(key) for key in list(self.copies) if key[0] == name}
            passports = {at: self.passports.pop(at) for at in list(self.passports) if at.partition("/")[0] == name}
            self.beside[aside] = copies, passports

    def dispose(self, proof: Disposable) -> None:
        self.beside.pop(_aside(proof.service, proof.order), None)
        if self.contents.pop(_aside(proof.service, proof.order), None) is not None:
            self.destroyed.append(proof.service)

    def set_aside_by(self, name: str) -> Sequence[str]:
        found = {*self.contents, *self.beside}
        return sorted(one[len(".purging-") : -len(name) - 1] for one in found if _is_aside(one, name))

    def asides(self) -> Sequence[SetAside]:
        names = sorted({one for one in {*self.contents, *self.beside} if one.startswith(".purging-")})
        return sorted((self._aside(name) for name in names), key=lambda one: (one.service, one.order))

    def _aside(self, name: str) -> SetAside:
        found = self._look(name) if name in self.contents else DataDirectory(name, f"{ROOT}/{name}", 0, 0, 0)
        copies = [made for made, _ in self.beside.get(name, ({}, {}))[0].values()]
        order, _, service = name.removeprefix(".purging-").partition("-")
        sizes = found.size_bytes, found.files, len(copies), sum(one.size_bytes for one in copies)
        return SetAside(service, order, found.path, *sizes)

    def bring_back(self, proof: Returnable) -> None:
        name, aside = proof.service, _aside(proof.service, proof.order)
        if aside in self.contents and self.contents.get(name):
            raise Conflict(f"data.{name} is not empty", remedy="purge it first", code="not_empty")
        copies, passports = self.beside.pop(aside, ({}, {}))
        self.copies |= copies
        if aside in self.contents:
            self.contents[name] = self.contents.pop(aside)
            self.passports |= passports


def _staged(proof: Restorable) -> str:
    return f".restoring-{proof.order}-{proof.checkpoint.service}"


def _aside(name: str, order: str) -> str:
    return f".purging-{permission.check_id(order)}-{permission.check_name(name)}"


def _is_aside(found: str, name: str) -> bool:
    return found.startswith(".purging-") and found[len(".purging-") + 33 :] == name


def unpacked(image: ImageDirectory, name: str) -> tuple[dict[str, bytes], str, int]:
    """Its files as those of the volume `name`; owner and mode of the directory."""
    files, had, mode = dict[str, bytes](), "", 0
    with tarfile.open(fileobj=image.tar, mode="r|") as archive:
        for member in archive:
            inside = member.name.removeprefix(image.inside)
            if inside == "":
                had, mode = f"{member.uid}:{member.gid}", member.mode & 0o7777
            elif inside.startswith("/") and member.name.startswith(image.inside):
                found = archive.extractfile(member) if member.isreg() else None
                files[name + inside + ("/" if member.isdir() else "")] = found.read() if found else b""
    return files, had, mode
