"""Archives in memory, for tests and simulation: the same manifest and the same rules over dictionaries of files."""

import base64
import json
from collections.abc import Sequence
from hashlib import sha256

from msgspec.structs import replace

from holdfast.adapters.archive import comparing
from holdfast.adapters.sealing.identities import MemoryIdentities
from holdfast.errors import Conflict, Corrupt, HoldfastError
from holdfast.model import archive
from holdfast.model.archive import Entry, Header, PackRow, Totals
from holdfast.ports.archive import (
    Fetch,
    Flaw,
    Packed,
    PackJob,
    Progress,
    Ship,
    Stored,
    Tell,
    Unpacked,
    UnpackJob,
    UpdateJob,
)
from holdfast.ports.random_source import RandomSource
from holdfast.reconcile import archive as rules

ROOT = "/memory/"
FILES_MAX = 4  # in a pack
_INTRO = b"age-encryption.org/v1\n"

Files = dict[str, bytes]


class MemoryArchiver:
    """`contents`: those of MemoryStorage; `dumps`: files elsewhere, by path. `troubles` are raised by `pack`, one per
    call. `exported`: path → files."""

    def __init__(self, random: RandomSource, contents: dict[str, Files]) -> None:
        self._random, self._contents = random, contents
        self.dumps: Files = {}
        self._identities = MemoryIdentities(random)
        self._homes: dict[str, dict[str, Entry]] = {}
        self._rows: dict[str, PackRow] = {}
        self._kept: dict[str, dict[str, Entry]] = {}  # by home
        self.troubles: list[HoldfastError] = []
        self.exported: dict[str, Files] = {}

    async def pack(self, job: PackJob, ship: Ship, tell: Tell) -> Packed:
        if self.troubles:
            raise self.troubles.pop(0)
        files = dict(self._contents.get(job.top.removeprefix(ROOT), {}))
        files |= {job.header.dump: self.dumps.pop(job.dump)} if job.dump else {}
        known = self._homes.setdefault(f"{job.home} {job.header.purpose}", {})
        usable = rules.Usable(self._rows.values(), job.alive, job.tidy)
        taken = {
            path: text
            for path, text in files.items()
            if self._is_taken(job, path) or (job.dump and path == job.header.dump)
        }
        entries = {path: _entry(path, text) for path, text in taken.items()}
        kept = {
            path: pack for path, one in entries.items() if (pack := rules.keeps(known.get(path), one.sha256, usable))
        }
        fresh = [path for path, one in sorted(entries.items()) if one.size and path not in kept]
        new: list[PackRow] = []
        for at in range(0, len(fresh), FILES_MAX):
            some = {path: taken[path] for path in fresh[at : at + FILES_MAX]}
            row = await self._shipped(some, job, ship)
            new.append(row)
            kept |= dict.fromkeys(some, row.digest)
            known |= {path: replace(entries[path], pack=row.digest) for path in some}
            tell(Progress(at + len(some), sum(map(len, some.values())), 0))
        lines = [replace(one, pack=kept.get(path, "")) for path, one in entries.items()]
        lines.sort(key=lambda one: archive.order_key(one.path.encode(), one.type == "dir") if one.path else b"")
        known.clear()
        known |= {one.path: one for one in lines}
        return self._packed(job, lines, new)

    def _is_taken(self, job: PackJob, path: str) -> bool:
        if rules.is_excluded(job.rules, path.rstrip("/")):
            return False
        return path.endswith("/") or rules.is_taken(job.rules, path)

    async def _shipped(self, some: Files, job: PackJob, ship: Ship) -> PackRow:
        plain = json.dumps(
            {
                "comment": job.header.purpose.comment,
                "files": {path: base64.b64encode(text).decode() for path, text in some.items()},
            }
        ).encode()
        content = self._sealed(plain, job.recipient)
        size = sum(map(len, some.values()))
        row = PackRow(sha256(content).hexdigest(), len(content), size, size)
        await ship(row.digest, content)
        self._rows[row.digest] = row
        return row

    def _packed(self, job: PackJob, lines: list[Entry], new: Sequence[PackRow]) -> Packed:
        live: dict[str, int] = {}
        for one in lines:
            if one.pack:
                live[one.pack] = live.get(one.pack, 0) + one.size
        rows = tuple(replace(self._rows[digest], live_bytes=size) for digest, size in sorted(live.items()))
        self._rows |= archive.rows(rows)
        files = sum(one.type != "dir" for one in lines)
        size_bytes = sum(one.size for one in lines)
        totals = Totals(entries=len(lines), files=files, size_bytes=size_bytes, stored_bytes=size_bytes, packs=rows)
        header = replace(job.header, format=archive.FORMAT, part_bytes=job.part_bytes)
        text = b"".join([archive.line(header), *map(archive.line, lines), archive.line(totals)])
        manifest = self._sealed(text, job.recipient)
        return Packed(
            manifest=manifest, digest=sha256(manifest).hexdigest(), files=files, size_bytes=size_bytes,
            packs=tuple(Stored(row.digest, row.size_bytes) for row in rows), new_packs=len(new),
            new_bytes=sum(row.size_bytes for row in new),
        )  # fmt: skip

    async def recall(self, job: UnpackJob, fetch: Fetch) -> None:
        _, lines, totals = self._opened(job)
        self._rows |= archive.rows(totals.packs)
        self._homes[f"{job.home} {job.purpose}"] = {one.path: one for one in lines}

    async def unpack(self, job: UnpackJob, fetch: Fetch, tell: Tell) -> Unpacked:
        place = self._contents.setdefault(job.top.removeprefix(ROOT), {})
        if place:
            raise Conflict(f"{job.top} is not empty", remedy="empty it first", code="not_empty")
        self._kept.pop(job.home, None)
        header, files = await self._files(job, fetch, {})
        place |= files
        if job.keep:
            self._kept[job.home] = self._listed(job)
        return self._unpacked(header, files)

    async def update(self, job: UpdateJob, fetch: Fetch, tell: Tell) -> Unpacked:
        if job.home not in self._kept:
            raise Conflict(f"{job.top} is not known", remedy="empty it, and unpack", code="not_the_tree")
        place = self._contents[job.top.removeprefix(ROOT)]
        before = self._kept[job.home]
        here = {path: text for path, text in place.items() if path in before}
        header, files = await self._files(job, fetch, {before[path].sha256: text for path, text in here.items()})
        place.clear()
        place |= files
        self._kept[job.home] = self._listed(job)
        return self._unpacked(header, files)

    async def forget(self, home: str) -> None:
        self._kept.pop(home, None)
        for name in [name for name in self._homes if name.startswith(f"{home} ")]:
            del self._homes[name]

    def _listed(self, job: UnpackJob) -> dict[str, Entry]:
        return {one.path: one for one in self._opened(job)[1]}

    async def export(self, job: UnpackJob, fetch: Fetch, path: str, tell: Tell) -> Unpacked:
        header, self.exported[path] = await self._files(job, fetch, {})
        return self._unpacked(header, self.exported[path])

    async def compare(self, stored: Sequence[Stored], fetch: Fetch, tell: Tell) -> Sequence[Flaw]:
        return await comparing.compare(stored, fetch, tell)

    async def verify(self, job: UnpackJob, fetch: Fetch, tell: Tell) -> Sequence[Flaw]:
        try:
            _, _, totals = self._opened(job)
        except Corrupt as trouble:
            return [Flaw(f"manifest {job.digest}", trouble.message)]
        flaws = []
        for row in totals.packs:
            try:
                self._members(row.digest, await fetch(row.digest), job)
            except Corrupt as trouble:
                flaws.append(Flaw(f"pack {row.digest}", trouble.message))
        return flaws

    async def _files(self, job: UnpackJob, fetch: Fetch, here: dict[str, bytes]) -> tuple[Header, Files]:
        """`here`: contents by digest that need no pack."""
        header, lines, _ = self._opened(job)
        packs = dict.fromkeys(one.pack for one in lines if one.pack and one.sha256 not in here)
        members = {digest: self._members(digest, await fetch(digest), job) for digest in packs}
        files: Files = {}
        for one in lines:
            text = here.get(one.sha256) or (members[one.pack].get(one.path, b"") if one.pack else b"")
            if one.type == "file" and one.size and sha256(text).hexdigest() != one.sha256:
                raise archive.damaged(f"{one.path} is not what it says")
            if one.path:
                files[f"{one.path}/" if one.type == "dir" else one.path] = text
        return header, files

    def _unpacked(self, header: Header, files: Files) -> Unpacked:
        return Unpacked(header, sum(not path.endswith("/") for path in files), sum(map(len, files.values())))

    def _opened(self, job: UnpackJob) -> tuple[Header, list[Entry], Totals]:
        first, *lines = self._unsealed(job.manifest, job.digest, job.identity).splitlines()
        header = archive.header_of(first)
        if header.purpose != job.purpose:
            raise archive.damaged(f"it is one of {header.purpose.shown}, not of {job.purpose.shown}")
        return header, [archive.entry_of(text) for text in lines[:-1]], archive.totals_of(lines[-1] if lines else b"")

    def _members(self, digest: str, content: bytes, job: UnpackJob) -> Files:
        said = json.loads(self._unsealed(content, digest, job.identity))
        if said["comment"] != job.purpose.comment:
            raise archive.damaged(f"the pack {digest} is for another purpose")
        return {path: base64.b64decode(text) for path, text in said["files"].items()}

    def _sealed(self, plain: bytes, recipient: str) -> bytes:
        return _INTRO + recipient.encode() + b"\n" + base64.b64encode(self._random.token(16)) + b"\n" + plain[::-1]

    def _unsealed(self, content: bytes, digest: str, identity: str) -> bytes:
        if sha256(content).hexdigest() != digest:
            raise archive.damaged(f"the object {digest} is not what was stored")
        head, recipient, _, *rest = content.split(b"\n", 3)
        if head + b"\n" != _INTRO or recipient.decode() != self._identities.recipient_of(identity):
            raise archive.damaged(f"the object {digest} is not sealed to this key")
        return rest[0][::-1] if rest else b""


def _entry(path: str, text: bytes) -> Entry:
    if path.endswith("/"):
        return Entry(path=path.rstrip("/"), type="dir", mode=0o755, uid=0, gid=0, mtime_ns=0)
    digest = sha256(text).hexdigest() if text else ""
    return Entry(path=path, type="file", mode=0o644, uid=0, gid=0, mtime_ns=0, size=len(text), sha256=digest)
