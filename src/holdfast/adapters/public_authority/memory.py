"""A public authority in memory, for tests and simulation: checks the challenges, can be made to refuse."""

from collections.abc import Callable, Mapping, Sequence

from holdfast.adapters.certificates.memory import Written, write
from holdfast.adapters.public_authority.acme.terms import check_terms
from holdfast.errors import Failed, HoldfastError
from holdfast.model.certificate import BACKDATED_S, DAY_S, LEAF_DAYS
from holdfast.model.fleet import Acme
from holdfast.ports.public_authority import Answer

ROOT, INTERMEDIATE = "root key of the public authority", "intermediate key of the public authority"

# Fetches http://NAME/.well-known/acme-challenge/TOKEN as the authority would; None if there is no answer.
Look = Callable[[str, str], str | None]


class MemoryPublicAuthority:
    def __init__(self, now_s: Callable[[], float], look: Look | None = None, days: float = LEAF_DAYS) -> None:
        self._now_s = now_s
        self._look = look
        self._days = days
        self._made = 0
        self.troubles: list[HoldfastError] = []  # raised by order instead, one per attempt
        self.orders: list[tuple[str, ...]] = []
        self.answers: list[Mapping[str, str]] = []

    async def order(
        self, settings: Acme, names: Sequence[str], answer: Answer, at_most_s: float
    ) -> tuple[bytes, bytes]:
        check_terms(settings)
        self.orders.append(tuple(names))
        if self.troubles:
            raise self.troubles.pop(0)
        self._made += 1
        tokens = {f"token-{self._made}-{place}": f"{name} by account 1" for place, name in enumerate(names)}
        self.answers.append(tokens)
        try:
            await answer(tokens)
            self._check(names, tokens)
        finally:
            await answer({})
        return self._signed(names)

    def _check(self, names: Sequence[str], tokens: Mapping[str, str]) -> None:
        for name, (token, expected) in zip(names, tokens.items(), strict=True):
            if self._look is not None and self._look(name, token) != expected:
                raise Failed(
                    f"the authority refused {name}: it did not find the challenge there",
                    remedy=f"point {name} at this edge and open port 80",
                    code="acme_refused",
                )

    def _signed(self, names: Sequence[str]) -> tuple[bytes, bytes]:
        from_s, until_s = self._now_s() - BACKDATED_S, self._now_s() + self._days * DAY_S
        key = f"key {self._made} of an order"
        leaf = write(Written(self._made, key, INTERMEDIATE, tuple(names), from_s, until_s))
        above = write(Written(0, INTERMEDIATE, ROOT, (), from_s - 1000 * DAY_S, until_s + 1000 * DAY_S))
        return leaf + b"\n" + above, key.encode()
