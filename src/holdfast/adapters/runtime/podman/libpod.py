"""Podman's REST interface (libpod) on a unix socket: one session, time-limited calls, our own errors."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import aiohttp
import msgspec

from holdfast.errors import TryLater

API = "/v4.0.0/libpod/"
CONNECT_S = 5.0
CALL_S = 60.0  # a container starts within a second; a busy machine may need many


class Refused(Exception):
    """Podman refused the request. `cause` is its stable text, `message` the detailed one."""

    def __init__(self, status: int, cause: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.cause = cause
        self.message = message

    @property
    def absent(self) -> bool:
        return self.status == 404


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes


class Keeper(Protocol):
    """Keeps a podman service running at the socket."""

    @property
    def last_words(self) -> str: ...

    async def revive(self) -> bool: ...


class Libpod:
    def __init__(self, socket: str, keeper: Keeper) -> None:
        self.socket = socket
        self._keeper = keeper
        self._session: aiohttp.ClientSession | None = None

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        data: bytes | None = None,
        timeout_s: float = CALL_S,
    ) -> Answer:
        async with self.open(method, path, params=params, body=body, data=data, timeout_s=timeout_s) as response:
            return Answer(response.status, await response.read())

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = CALL_S,
        silence_s: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer to be read as a stream. Anything but 2xx and 304 raises Refused; no connection raises TryLater.
        With `silence_s` only each read is limited: a slow reader is not cut off."""
        total_s = timeout_s if silence_s is None else None
        limits = aiohttp.ClientTimeout(total=total_s, sock_connect=CONNECT_S, sock_read=silence_s)
        sent = data if body is None else msgspec.json.encode(body)
        told = {**(headers or {}), **({"Content-Type": "application/json"} if body is not None else {})}
        try:
            response = await self._sent(method, path, params, sent, told, limits)
            async with response:
                if response.status >= 400:
                    raise _refusal(response.status, await response.read())
                yield response
        except TimeoutError as trouble:
            raise away(f"{self.socket}: {method} {path} timed out") from trouble
        except (aiohttp.ClientError, OSError) as trouble:
            words = self._keeper.last_words or str(trouble) or type(trouble).__name__
            raise away(f"{self.socket}: {words}") from trouble

    async def _sent(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        data: bytes | None,
        headers: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """A call that could not connect had no effect, so it is repeated once after the service was restarted."""
        for last in (False, True):
            try:
                return await self._opened().request(
                    method, API + path, params=params, data=data, headers=headers, timeout=limits
                )
            except aiohttp.ClientConnectorError:
                if last or not await self._keeper.revive():
                    raise
        raise AssertionError("unreachable")

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.UnixConnector(path=self.socket, limit=0)
            self._session = aiohttp.ClientSession("http://podman", connector=connector)
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # aiohttp closes its transports one turn later


def away(what: str) -> TryLater:
    return TryLater(
        f"podman does not answer ({what})",
        remedy="on the node: podman info; then restart the agent: systemctl restart holdfast-agent",
        code="runtime_away",
    )


def stumbled(no: Refused) -> TryLater:
    """A read request was refused: an error inside podman, for example because a container has just vanished."""
    return TryLater(
        f"podman cannot answer a query: {no.message}", remedy="the agent retries automatically", code="runtime_trouble"
    )


def filters(wanted: Mapping[str, Sequence[str]]) -> str:
    return json.dumps({key: list(values) for key, values in wanted.items()})


def _refusal(status: int, body: bytes) -> Refused:
    try:
        said: Any = msgspec.json.decode(body)
        return Refused(status, str(said.get("cause", "")), str(said.get("message", "")))
    except (msgspec.DecodeError, AttributeError):
        return Refused(status, "", body[:500].decode(errors="replace"))
