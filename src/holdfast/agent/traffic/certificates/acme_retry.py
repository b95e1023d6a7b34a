"""When to ask a public authority again for a name that it refused. In memory only: a restart may ask at once."""

from msgspec import Struct

from holdfast.errors import HoldfastError, Limited, TryLater
from holdfast.model.fleet import Acme
from holdfast.model.route import within

# Away or busy: cheap to ask again. Refused: every attempt counts against the name at the authority (a well known one
# grants five failures an hour), and an operator has to fix something first.
UNREACHED_S, UNREACHED_S_MAX = 2.0, 300.0
REFUSED_S, REFUSED_S_MAX = 120.0, 3600.0
ASKED_S_MAX = 86_400.0


class Refused(Struct, frozen=True):
    trouble: HoldfastError
    settings: Acme
    next_s: float
    pause_s: float


class AcmeRetry:
    def __init__(self) -> None:
        self._refused: dict[str, Refused] = {}

    def waits(self, name: str, settings: Acme, now_s: float) -> Refused | None:
        """Why it is not asked now, or None. Other settings are another question, and may be asked at once."""
        found = self._refused.get(name)
        return found if found is not None and found.settings == settings and now_s < found.next_s else None

    def refused(self, name: str, settings: Acme, trouble: HoldfastError, now_s: float) -> None:
        known = self._refused.get(name)
        first_s, longest_s = (UNREACHED_S, UNREACHED_S_MAX) if _cheap(trouble) else (REFUSED_S, REFUSED_S_MAX)
        again = known is not None and known.settings == settings and _cheap(known.trouble) == _cheap(trouble)
        pause_s = min(known.pause_s * 2, longest_s) if again and known is not None else first_s
        asked_s = min(trouble.retry_after_s, ASKED_S_MAX) if isinstance(trouble, Limited) else 0.0
        self._refused[name] = Refused(trouble, settings, now_s + max(pause_s, asked_s), pause_s)

    def forget(self, name: str) -> None:
        self._refused.pop(name, None)


def covers(acme: Acme, name: str) -> bool:
    """Whether the public authority is asked for this name."""
    return not acme.domains or any(within(name, domain) for domain in acme.domains)


def _cheap(trouble: HoldfastError) -> bool:
    return isinstance(trouble, TryLater)
