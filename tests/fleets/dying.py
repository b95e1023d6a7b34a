"""An agent that dies at one call of its ports, as by kill -9: from then on no call of it has any effect."""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, Literal

When = Literal["before", "after"]


class Dead(Exception):
    """The process is gone; a test ends its tasks."""


class Dying:
    """At call `number` of those that are `meant`, before or after it took effect; `meant` gets the first argument.
    `at` is the verb then; "" as long as it lives."""

    def __init__(self, number: int, when: When, meant: Callable[[Any], bool]) -> None:
        self.at = ""
        self._left = number
        self._when = when
        self._meant = meant
        self._watched: list[tuple[Any, str]] = []

    def watch(self, port: Any, *verbs: str) -> None:
        for verb in verbs:
            act = getattr(port, verb)
            setattr(port, verb, self._later(verb, act) if iscoroutinefunction(act) else self._now(verb, act))
            self._watched.append((port, verb))

    def revive(self) -> None:
        """The next process is another one."""
        for port, verb in self._watched:
            delattr(port, verb)

    def _now(self, verb: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            is_last = self._begin(verb, given[0])
            found = act(*given, **named)
            self._end(verb, is_last)
            return found

        return call

    def _later(self, verb: str, act: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*given: Any, **named: Any) -> Any:
            is_last = self._begin(verb, given[0])
            found = await act(*given, **named)
            self._end(verb, is_last)
            return found

        return call

    def _begin(self, verb: str, first: Any) -> bool:
        if not self.at and self._meant(first):
            self._left -= 1
            if self._left == 0 and self._when == "before":
                self.at = verb
        if self.at:
            raise Dead(verb)
        return self._left == 0 and self._meant(first)

    def _end(self, verb: str, is_last: bool) -> None:
        if is_last:
            self.at = verb
        if self.at:
            raise Dead(verb)
