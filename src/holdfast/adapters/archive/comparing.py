"""Comparing stored objects with their digests, without any key: what a target gives is what it was given."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256

from holdfast.errors import HoldfastError
from holdfast.ports.archive import Fetch, Flaw, Progress, Stored, Tell


async def compare(stored: Sequence[Stored], fetch: Fetch, tell: Tell) -> Sequence[Flaw]:
    flaws: list[Flaw] = []
    done, total = 0, sum(one.size_bytes for one in stored)
    for number, one in enumerate(stored, 1):
        try:
            content = await fetch(one.digest)
        except (HoldfastError, KeyError, FileNotFoundError) as trouble:
            flaws.append(Flaw(one.digest, f"it cannot be read: {trouble}"))
            continue
        if len(content) != one.size_bytes or await asyncio.to_thread(_digest, content) != one.digest:
            flaws.append(Flaw(one.digest, "its bytes are not those that were stored"))
        done += one.size_bytes
        tell(Progress(number, done, total))
    return flaws


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
