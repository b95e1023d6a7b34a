"""Run a loop for ever: an unexpected error becomes a finding and a log event, and the loop starts again."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Say

AGAIN_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # between two tries
CALM_S = 60.0  # a loop that ran so long begins with the first pause again
INTERNAL_ERROR = "internal_error"
REMEDY = "report this, with the log"
MESSAGE_MAX = 500


class Keeping:
    def __init__(self, findings: Findings, say: Say) -> None:
        self.findings = findings
        self._say = say

    async def keep(self, run: Callable[[], Awaitable[None]], **fields: str) -> None:
        """Until cancelled, or until `run` returns. `fields` go into the log event of a mistake."""
        loop = asyncio.get_running_loop()
        tries = 0
        while True:
            begun_s = loop.time()
            try:
                await run()
                return
            except Exception as mistake:
                tries = 0 if loop.time() - begun_s > CALM_S else tries
                self.mistake(mistake, **fields)
            await asyncio.sleep(AGAIN_S[min(tries, len(AGAIN_S) - 1)])
            tries += 1

    def mistake(self, mistake: BaseException, *, at: str = "", **fields: str) -> None:
        """An agent that ended of its own mistake could not report it. `at` is the address of the finding."""
        message = f"{type(mistake).__name__}: {mistake}"
        self.findings.add(INTERNAL_ERROR, (f"{at}: {message}" if at else message)[:MESSAGE_MAX], REMEDY, at)
        self._say(INTERNAL_ERROR, {**fields, "message": repr(mistake)[:MESSAGE_MAX], "where": _where(mistake)})

    def recovered(self, address: str) -> None:
        self.findings.clear(INTERNAL_ERROR, address)


def _where(mistake: BaseException) -> str:
    frames = traceback.extract_tb(mistake.__traceback__)[-4:]
    return " › ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames)
