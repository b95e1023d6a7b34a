"""Writes under way into the ledger: wait for them, or only log their failure."""

import asyncio
import logging
from concurrent.futures import Future

log = logging.getLogger("holdfast.fleet")


async def durable(writing: "Future[int]") -> int:
    """Group commit: many of these share one flush. A store that is done already is not waited for."""
    return writing.result() if writing.done() else await asyncio.wrap_future(writing)


def noted(writing: "Future[int]") -> None:
    """Only log a failure: the next change writes it again."""
    writing.add_done_callback(_complain)


def _complain(writing: "Future[int]") -> None:
    trouble = writing.exception()
    if trouble is not None:
        log.warning("a report was not written down: %s", trouble)
