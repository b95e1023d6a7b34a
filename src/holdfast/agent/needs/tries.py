"""How often each need was asked for in vain, and when it is asked for again."""

from collections.abc import Callable

from holdfast.agent.needs.declared import Declarations, Declared
from holdfast.errors import HoldfastError, NeedsOperator
from holdfast.ports.need_files import NeedKey
from holdfast.reconcile import needs as rules
from holdfast.reconcile.needs import NO_TRIES, Tries

PASSING = ("unknown_key", "not_found", "replayed")  # the provider may be a revision behind


class TryBook:
    """In memory: a start of the agent is a reason to ask at once. `chance` gives a number between 0 and 1."""

    def __init__(self, declared: Declarations, now_s: Callable[[], float], chance: Callable[[], float]) -> None:
        self._declared = declared
        self._now_s = now_s
        self._chance = chance
        self._tries: dict[NeedKey, Tries] = {}

    def of(self, key: NeedKey) -> Tries:
        return self._tries.get(key, NO_TRIES)

    def forget(self) -> None:
        """A new revision is a reason to ask again at once (F-46)."""
        self._tries.clear()

    def failed(self, declared: Declared, trouble: HoldfastError) -> None:
        is_refused = isinstance(trouble, NeedsOperator) and trouble.code not in PASSING
        why = f"{trouble.message}; {trouble.remedy}" if is_refused else trouble.message
        before = self.of(declared.key)
        self._tries[declared.key] = rules.failed(before, why, is_refused, self._now_s(), self._chance())

    def succeeded(self, declared: Declared) -> None:
        """The provider answers: its other needs wait no longer."""
        self._tries.pop(declared.key, None)
        for key, one in self._declared.found.items():
            if one.want.provider == declared.want.provider and not self.of(key).is_refused:
                self._tries.pop(key, None)
