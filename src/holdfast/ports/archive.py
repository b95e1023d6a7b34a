"""Archives of a service's data: small sealed objects on targets, from a directory and back into one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.model.archive import PART_BYTES, Header, PartBytes, Purpose


class Rules(Struct, frozen=True):
    """Which files of a service's directory are archived; all patterns are relative to it (reconcile/archive.py).
    `volumes`: directories that are taken whole. `whole`: everything is."""

    whole: bool = True
    volumes: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class PackJob(Struct, frozen=True, kw_only=True):
    """`top`: the directory to archive. `home`: the archiver's own directory for this service and generation: its copy
    of the last manifest, what a cut run had shipped, and objects on their way. `alive`: packs that the target has;
    None: all that were shipped once. `vacuum`: SQLite databases are copied by SQLite itself (M-93). `dump`: a file
    elsewhere that is archived as `header.dump`, a name directly in `top`; it is deleted, however the job ends.
    `part_bytes`: long files are stored in parts of this size; after another size in the same `home` they are stored
    again. `tidy`: packs that are mostly dead are written again; without it, a pass ships what changed and no more.
    `urgent`: a service waits for it, so it does not yield to other work."""

    top: str
    home: str
    recipient: str
    header: Header
    rules: Rules = Rules()
    vacuum: bool = True
    dump: str = ""
    alive: tuple[str, ...] | None = None
    part_bytes: PartBytes = PART_BYTES
    tidy: bool = True
    urgent: bool = False


class UnpackJob(Struct, frozen=True, kw_only=True):
    """`manifest`: as stored; `digest`: what the signed receipt says of it. `top`: an empty directory. `home`: the
    archiver's own, for objects on their way. `keep`: `home` also keeps what `update` compares with.
    `urgent`: as in PackJob."""

    manifest: bytes
    digest: str
    identity: str
    purpose: Purpose
    home: str
    top: str = ""
    keep: bool = False
    urgent: bool = False

    def __repr__(self) -> str:  # never the key
        return f"{type(self).__name__}(digest={self.digest!r}, purpose={self.purpose!r}, top={self.top!r})"


class UpdateJob(UnpackJob, frozen=True, kw_only=True):
    """`top`: has exactly what the last `unpack` with `keep`, or the last `update`, in this `home` left there, and no
    service has it: delete `home` before one gets it."""

    keep: bool = True


class Progress(Struct, frozen=True):
    files: int
    size_bytes: int  # of content, so far
    total_bytes: int  # 0: not known


class Stored(Struct, frozen=True):
    digest: str
    size_bytes: int


class Packed(Struct, frozen=True, kw_only=True):
    """`packs`: all that the manifest refers to. `left_out`: what an archive cannot hold (sockets, devices, other file
    systems). `unsettled`: files that were written to while they were read. At most 20 names each."""

    manifest: bytes
    digest: str
    packs: tuple[Stored, ...]
    files: int
    size_bytes: int
    new_packs: int
    new_bytes: int
    left_out: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()
    vacuumed: tuple[str, ...] = ()


class Unpacked(Struct, frozen=True):
    header: Header
    files: int
    size_bytes: int


class Flaw(Struct, frozen=True):
    """One damaged object: `what` is a pack, a manifest or a file."""

    what: str
    why: str


Ship = Callable[[str, bytes], Awaitable[None]]
Fetch = Callable[[str], Awaitable[bytes]]
Tell = Callable[[Progress], None]


class Archiver(Protocol):
    """Every verb may be cancelled; then nothing of it runs on."""

    async def pack(self, job: PackJob, ship: Ship, tell: Tell) -> Packed:
        """Archive `top` as it is now. `ship(digest, content)` returns when every target has the object; up to four are
        under way. After a cut, the same call goes on with what was shipped. Raises Failed: a database is damaged, a
        disk is full, a directory cannot be read."""
        ...

    async def recall(self, job: UnpackJob, fetch: Fetch) -> None:
        """Make `home` know this manifest, so that the next `pack` compares with it: for a node that lost its copy."""
        ...

    async def unpack(self, job: UnpackJob, fetch: Fetch, tell: Tell) -> Unpacked:
        """Fill the empty directory `top`; it is complete and durable on return. After an error it may be half full: the
        caller deletes it. Raises Corrupt: an object is not what was stored, which the error names; Conflict: `top` is
        not empty; Failed: no room."""
        ...

    async def update(self, job: UpdateJob, fetch: Fetch, tell: Tell) -> Unpacked:
        """Bring `top` to this manifest: only what differs is fetched and written; complete and durable on return. After
        an error or a crash the same call, or one with another manifest, ends right. Raises as `unpack`; Conflict: `top`
        is not the directory that `home` knows: empty it, and unpack."""
        ...

    async def verify(self, job: UnpackJob, fetch: Fetch, tell: Tell) -> Sequence[Flaw]:
        """Open every object and compare every file's content; writes nothing. Empty: a restore would succeed."""
        ...

    async def compare(self, stored: Sequence[Stored], fetch: Fetch, tell: Tell) -> Sequence[Flaw]:
        """Compare objects with their digests; needs no key. What cannot be fetched is a flaw."""
        ...

    async def export(self, job: UnpackJob, fetch: Fetch, path: str, tell: Tell) -> Unpacked:
        """One plain tar.zst at `path`, which must not exist."""
        ...

    async def forget(self, home: str) -> None:
        """Delete this directory of the archiver with all that it keeps there. Does nothing if there is none."""
        ...
