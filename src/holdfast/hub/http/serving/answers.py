"""Send a response within the memory that all responses share, and within a time limit."""

import asyncio

from holdfast.errors import TryLater
from holdfast.hub.http import limits
from holdfast.hub.http.serving.responses import refusal
from holdfast.ports.http_server import Exchange, Response


class Answers:
    def __init__(self) -> None:
        self._budget = limits.Budget(limits.ANSWERS_BYTES_MAX, "too many answers are on their way")

    async def send(self, exchange: Exchange, response: Response) -> None:
        try:
            async with asyncio.timeout(limits.ANSWER_S):
                await self._send(exchange, response)
        except TimeoutError:
            exchange.connection.hang_up()
            raise ConnectionError("the answer was not fetched") from None

    async def _send(self, exchange: Exchange, response: Response) -> None:
        with self._budget.share() as share:
            if len(response.body) > limits.SMALL_ANSWER_BYTES:
                try:
                    share.take(len(response.body))
                except TryLater as trouble:
                    response = refusal(trouble, writing=False)
            await exchange.send(response)
