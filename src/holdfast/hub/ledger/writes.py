"""Writes under way into the ledger: wait for them, or only log their failure."""

import asyncio
import logging
from concurrent.futures import Future
from functools import partial

log = logging.getLogger("holdfast.fleet")


async def durable(writing: "Future[int]") -> int:
    """Group commit: many of these share one flush. A store that is done already is not waited for."""
    return writing.result() if writing.done() else await asyncio.wrap_future(writing)


def noted(writing: "Future[int]", what: str = "a report") -> None:
    """Only log a failure: the next change writes it again."""
    writing.add_done_callback(partial(_complain, what))


def _complain(what: str, writing: "Future[int]") -> None:
    trouble = writing.exception()
    if trouble is not None:
        log.warning("%s was not written down: %s", what, trouble)
