"""Order certificates by ACME (RFC 8555) with HTTP-01 challenges. The account's key stays on this node.

The library is synchronous and slow to import, so every step runs in a thread; an order can be cancelled between the
steps and has a time limit.
"""

import asyncio
import os
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from holdfast.adapters.certificates import issuer as issuing
from holdfast.adapters.certificates import x509
from holdfast.adapters.public_authority.acme.terms import BUSY, check_terms
from holdfast.errors import HoldfastError, TryLater
from holdfast.model.fleet import Acme
from holdfast.ports.disk import Disk
from holdfast.ports.public_authority import Answer

if TYPE_CHECKING:
    from holdfast.adapters.public_authority.acme.visit import Visit

T = TypeVar("T")

ACCOUNT_KEY, AUTHORITIES = "acme-account.key", "acme-authorities.pem"
REQUEST_S = 10.0  # of one connection or one read
_FILE_BYTES_MAX = 64 * 1024
PAUSE_S, _PAUSE_S_MAX = 0.25, 3.0
_STUMBLES_MAX = 3
_ASKED_S_MAX = 30.0  # the longest wait between two polls that an authority may request


class AcmeAuthority:
    def __init__(self, directory: str, disk: Disk, pause_s: float = PAUSE_S) -> None:
        self._directory = directory
        self._disk = disk
        self._counter = asyncio.Lock()  # some authorities fail on concurrent registrations or orders of one account
        self._pause_s = pause_s  # before the second poll; every further pause is longer

    async def order(
        self, settings: Acme, names: Sequence[str], answer: Answer, at_most_s: float
    ) -> tuple[bytes, bytes]:
        check_terms(settings)
        try:
            async with asyncio.timeout(at_most_s):
                return await self._ordered(settings, tuple(names), answer)
        except TimeoutError:
            raise TryLater(
                f"the authority {settings.directory} did not sign for {', '.join(names)} within {at_most_s:g}s",
                remedy="check that this edge can reach it; the agent retries automatically",
                code="acme_slow",
            ) from None

    async def _ordered(self, settings: Acme, names: tuple[str, ...], answer: Answer) -> tuple[bytes, bytes]:
        account, believed = self._account_key(), self._believed(settings)
        async with self._counter:
            visit = await self._step(lambda: _begun(settings, account, believed))
            request = await self._step(lambda: visit.order(names))
        try:
            if request.tokens:
                try:
                    await answer(request.tokens)
                    await self._step(visit.ready)
                    await self._until(visit, visit.proven)
                finally:
                    with suppress(HoldfastError):  # a challenge that is answered for too long is harmless
                        await answer({})
            await self._until(visit, visit.finalized)
            return await self._step(visit.chain), request.private
        finally:
            visit.close()

    async def _until(self, visit: "Visit", done: Callable[[], bool]) -> None:
        """Poll with growing pauses. The order's time limit is the bound."""
        pause_s = self._pause_s
        while not await self._step(done):
            await asyncio.sleep(min(max(pause_s, visit.asked_s), _ASKED_S_MAX))
            pause_s = min(pause_s * 2, _PAUSE_S_MAX)

    async def _step(self, work: Callable[[], T]) -> T:
        """Every step can be repeated; it is repeated a few times while the authority reports a temporary error."""
        for attempt in range(_STUMBLES_MAX):
            try:
                return await _in_thread(work)
            except TryLater as trouble:
                if trouble.code != BUSY:
                    raise
            await asyncio.sleep(self._pause_s * 2**attempt)
        return await _in_thread(work)

    # ---- files

    def _account_key(self) -> bytes:
        """Created again if it is missing or damaged: an account matters only for pending orders."""
        path = os.path.join(self._directory, ACCOUNT_KEY)
        with suppress(HoldfastError):
            kept = self._disk.read(path, _FILE_BYTES_MAX)
            if kept is not None:
                return x509.pkcs8(x509.private_key(kept))
        made = x509.pkcs8(issuing.make_key())
        self._disk.make_directory(self._directory, 0o700)
        self._disk.replace(path, made, 0o600)
        return made

    def _believed(self, settings: Acme) -> str:
        """The path of the CA certificates that verify the authority's server."""
        if not settings.ca:
            machine = ssl.get_default_verify_paths()
            return machine.cafile or machine.capath or ""
        path = os.path.join(self._directory, AUTHORITIES)
        if self._disk.read(path, _FILE_BYTES_MAX) != settings.ca.encode():
            self._disk.make_directory(self._directory, 0o700)
            self._disk.replace(path, settings.ca.encode(), 0o600)
        return path


def _begun(settings: Acme, account: bytes, believed: str) -> "Visit":
    from holdfast.adapters.public_authority.acme.visit import Visit

    return Visit(settings, account, believed, REQUEST_S)


async def _in_thread(work: Callable[[], T]) -> T:
    """A daemon thread: a request that hangs blocks neither the caller nor the end of this process."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, trouble: BaseException | None) -> None:
        if result.done():
            return
        if trouble is not None:
            result.set_exception(trouble)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value: T | None = None
        trouble: BaseException | None = None
        try:
            value = work()
        except BaseException as caught:  # re-raised in the awaiting task
            trouble = caught
        with suppress(RuntimeError):  # the loop is closed, so no task waits
            loop.call_soon_threadsafe(settle, value, trouble)

    threading.Thread(target=run, name="acme", daemon=True).start()
    return await result
