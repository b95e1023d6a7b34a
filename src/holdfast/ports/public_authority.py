"""A public certificate authority that validates names over HTTP (ACME, HTTP-01)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from holdfast.model.fleet import Acme

# Answer these tokens on port 80 of this edge; return once it does. An empty mapping removes them.
Answer = Callable[[Mapping[str, str]], Awaitable[None]]


class PublicAuthority(Protocol):
    async def order(
        self, settings: Acme, names: Sequence[str], answer: Answer, at_most_s: float
    ) -> tuple[bytes, bytes]:
        """A chain (PEM, leaf first) and its new private key (PEM), not verified. The key never leaves this machine.

        Raises TryLater if the authority cannot be reached or asks to wait, Failed if it refuses.
        """
        ...
