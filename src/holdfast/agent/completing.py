"""Work that makes something ends before its caller does: what it made is there then, and can be removed."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def completed(work: Awaitable[T]) -> T:
    """Also if the caller is cancelled meanwhile: podman and threads go on without the one who asked them."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # it is seen: no warning about it
        raise
