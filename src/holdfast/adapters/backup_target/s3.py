"""A bucket of an S3-compatible server as a target. Objects are created only if they are absent (conditional put).

The credentials are the opened content of a sealed value; nothing is taken from the environment of the process.
"""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from msgspec import Struct
from obstore import exceptions
from obstore.store import S3Store

from holdfast.adapters.backup_target import marker, sealed_lines, troubles
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX
from holdfast.model.storage_target import Bucket
from holdfast.ports.backup_target import StoredObject, TargetState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Sequence

    from holdfast.ports.backup_target import Prunable

T = TypeVar("T")
Objects = list[StoredObject]

LOOK_S = 3.0
OBJECT_S = 300.0
LIST_S = 600.0
PAGE = 1000
HEADS = 16  # questions at once
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){0,7})?")
_ENDPOINT = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::\d{1,5})?/?"
)


class Credentials(Struct, frozen=True):
    access_key_id: str
    secret_access_key: str
    session_token: str = ""
    region: str = ""


def credentials(content: bytes) -> Credentials:
    """Lines AWS_ACCESS_KEY_ID=… and AWS_SECRET_ACCESS_KEY=…, as env files have them; perhaps AWS_SESSION_TOKEN=… and
    AWS_REGION=…"""
    found = sealed_lines.read(content)
    try:
        return Credentials(
            found["AWS_ACCESS_KEY_ID"],
            found["AWS_SECRET_ACCESS_KEY"],
            found.get("AWS_SESSION_TOKEN", ""),
            found.get("AWS_REGION", ""),
        )
    except KeyError as missing:
        raise Invalid(
            f"the credentials of the bucket lack {missing.args[0]}",
            remedy="seal two lines: AWS_ACCESS_KEY_ID=… and AWS_SECRET_ACCESS_KEY=…",
            code="target_credentials",
        ) from None


def checked(bucket: Bucket) -> Bucket:
    for form, text, what in (
        (_ENDPOINT, bucket.endpoint, 'an address such as "https://s3.example.com"'),
        (_BUCKET, bucket.name, 'the name of a bucket such as "backups"'),
        (_PREFIX, bucket.prefix, 'a folder such as "fleet/nightly"'),
    ):
        if form.fullmatch(text) is None:
            raise Invalid(f"{text[:80]!r} is not {what}", remedy="correct the storage target in fleet.toml")
    return bucket


class S3Target:
    def __init__(self, bucket: Bucket, sealed: Credentials, durable_id: str) -> None:
        self._bucket = checked(bucket)
        self._durable_id = marker.check_id(durable_id)
        self._where = f"{bucket.endpoint.rstrip('/')}/{bucket.name}" + (f"/{bucket.prefix}" if bucket.prefix else "")
        self._store = _store(self._bucket, sealed, OBJECT_S, retries=3)
        self._looking = _store(self._bucket, sealed, LOOK_S, retries=0)

    async def put(self, key: str, content: bytes) -> None:
        parsed = backup_key.parse(key)
        await asyncio.to_thread(backup_key.check_content, parsed, content)
        await self._checked_marker()
        if not await self._create(self._path(parsed.text), content) and await self.get(key) != content:
            raise troubles.damaged(self._where, key)

    async def get(self, key: str) -> bytes | None:
        return await self._fetched(self._path(backup_key.parse(key).text))

    async def has(self, keys: Collection[str]) -> set[str]:
        """A folder is listed if many of its keys are asked for, else each key is looked up."""
        by_folder: dict[str, set[str]] = {}
        for key in keys:
            by_folder.setdefault(backup_key.parse(key).text.rpartition("/")[0] + "/", set()).add(key)
        found: set[str] = set()
        for folder, wanted in by_folder.items():
            if len(wanted) > HEADS:
                found |= wanted & {one.key for one in await self.list(folder)}
            else:
                there = await asyncio.gather(*(self._is_there(key) for key in wanted))
                found |= {key for key, is_there in zip(wanted, there, strict=True) if is_there}
        return found

    async def list(self, prefix: str) -> Sequence[StoredObject]:
        backup_key.check_prefix(prefix)
        found = await self._within(LIST_S, self._listed(self._path(prefix)))
        return sorted((one for one in found if backup_key.is_key(one.key)), key=lambda one: one.key)

    async def delete(self, key: str, proof: Prunable) -> None:
        if proof.key != key:
            raise troubles.not_this_one(key, proof)
        await self._checked_marker()
        await self._within(OBJECT_S, obstore.delete_async(self._store, self._path(backup_key.parse(key).text)))

    async def look(self) -> TargetState:
        found = ""
        try:
            found = await self._marked(self._looking, LOOK_S)
            self._check(found)
        except HoldfastError as trouble:
            return TargetState(troubles.condition(trouble), trouble.message, durable_id=found)
        return TargetState("attached", "", None, found)

    async def adopt(self) -> None:
        """Write the marker: an operator said that this bucket is the target of that id. A server that ignores the
        condition of a put is refused."""
        path, content = self._path(marker.NAME), marker.write(marker.Marker(self._durable_id))
        await self._create(path, content)
        if await self._create(path, content):
            raise troubles.refused(self._where, "the server ignores the condition of a put (If-None-Match)")
        found = await self._marked(self._store, OBJECT_S)
        if found != self._durable_id:
            raise Conflict(
                f"{self._where} is a backup target already, with another id ({found or 'unreadable'})",
                remedy="attach it under that id, or choose another folder of the bucket",
                code="other_target",
            )

    async def close(self) -> None:
        """The connections end with the store."""

    # ---- one request

    async def _create(self, path: str, content: bytes) -> bool:
        """False: there is an object of this name."""
        try:
            await self._within(
                OBJECT_S, obstore.put_async(self._store, path, content, mode="create", use_multipart=False)
            )
        except _Taken:
            return False
        return True

    async def _fetched(self, path: str) -> bytes | None:
        async def fetched() -> bytes:
            answer = await obstore.get_async(self._store, path)
            if answer.meta["size"] > OBJECT_BYTES_MAX:
                raise troubles.damaged(self._where, path)
            return bytes(await answer.bytes_async())

        try:
            return await self._within(OBJECT_S, fetched())
        except _Absent:
            return None

    async def _is_there(self, key: str) -> bool:
        try:
            await self._within(OBJECT_S, obstore.head_async(self._store, self._path(key)))
        except _Absent:
            return False
        return True

    async def _listed(self, path: str) -> Sequence[StoredObject]:
        cut = len(self._path(""))
        found: Objects = []
        async for page in obstore.list(self._store, path, chunk_size=PAGE):
            found += [StoredObject(str(one["path"])[cut:], int(one["size"])) for one in page]
        return found

    async def _marked(self, store: S3Store, limit_s: float) -> str:
        async def fetched() -> bytes:
            answer = await obstore.get_async(store, self._path(marker.NAME))
            return bytes(await answer.bytes_async())

        try:
            found = marker.parse(await self._within(limit_s, fetched()))
        except _Absent:
            raise troubles.missing(self._where, f"the bucket has no {marker.NAME}, so it is not the target") from None
        return found.durable_id if found is not None else ""

    async def _checked_marker(self) -> None:
        self._check(await self._marked(self._store, OBJECT_S))

    def _check(self, found: str) -> None:
        if found != self._durable_id:
            raise troubles.missing(self._where, f"another target is there ({found or 'unreadable'})")

    async def _within(self, limit_s: float, request: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(limit_s):
                return await request
        except TimeoutError:
            raise troubles.silent(self._where, limit_s) from None
        except exceptions.AlreadyExistsError:
            raise _Taken from None
        except (exceptions.NotFoundError, FileNotFoundError):
            raise _Absent from None
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError) as trouble:
            raise troubles.refused(self._where, _words(trouble)) from trouble
        except (exceptions.BaseError, OSError) as trouble:
            raise _other(self._where, _words(trouble)) from trouble

    def _path(self, key: str) -> str:
        return f"{self._bucket.prefix}/{key}" if self._bucket.prefix else key


class _Taken(Exception):
    """There is an object of this name."""


class _Absent(Exception):
    """There is none."""


def _other(where: str, words: str) -> HoldfastError:
    """obstore tells most answers of a server apart by their text only."""
    if re.search(r"\b507\b|StorageFull|QuotaExceeded|InsufficientStorage", words):
        return troubles.full(where, words)
    return troubles.missing(where, words)


def _words(trouble: BaseException) -> str:
    """The status and the code of the server's answer; else the first line of the text, without its chain of causes."""
    text = str(trouble)
    status, code = re.search(r"status code: (\d{3}[A-Za-z -]*)", text), re.search(r"<Code>(\w{1,60})</Code>", text)
    if status is not None:
        return f"it answers {status[1].strip()}" + (f" ({code[1]})" if code is not None else "")
    return text.strip().split("\n")[0][:200] or type(trouble).__name__


def _store(bucket: Bucket, sealed: Credentials, limit_s: float, retries: int) -> S3Store:
    more: dict[str, Any] = {"session_token": sealed.session_token} if sealed.session_token else {}
    return S3Store(
        bucket.name,
        endpoint=bucket.endpoint.rstrip("/"),
        region=sealed.region or bucket.region,
        access_key_id=sealed.access_key_id,
        secret_access_key=sealed.secret_access_key,
        virtual_hosted_style_request=False,
        client_options={
            "allow_http": bucket.endpoint.startswith("http://"),
            "timeout": timedelta(seconds=limit_s),
            "connect_timeout": timedelta(seconds=min(limit_s, 10.0)),
        },
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=limit_s)},
        **more,
    )
