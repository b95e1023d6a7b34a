"""When the services of a node are looked at again: facts of a pass in, a pause out. Pure: time comes in as a number."""

from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.reconcile.progress import Guard, fingerprint
from holdfast.reconcile.stages import Work

LOOK_S = 10.0  # everything is looked at at least so often (T-04); events come in between
SOON_S = 0.05  # never sooner
DOWN_S = 0.5  # while a container does not run that should
AGAIN_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # between passes that did not get there


class Pause(Struct, frozen=True):
    at_most_s: float = LOOK_S
    deaf: bool = False  # events of containers do not end it


class Pacing:
    """What is remembered from pass to pass. `stuck` is why a service waits, where waiting alone will not help."""

    def __init__(self) -> None:
        self.has_looked = False  # since this process began, or since the runtime came back
        self.withholds_data = False  # services with data are not begun: no hub confirmed them after a boot
        self.unrest: set[str] = set()  # services that are not yet where they must be
        self.stuck: dict[str, HoldfastError] = {}
        self._later: dict[str, tuple[int, float]] = {}  # services that did not get there: tries, when again
        self._tries = 0
        self._guard = Guard()

    def withhold_data(self, withholds: bool) -> None:
        self.withholds_data = withholds

    # ---- single services

    def try_later(self, service: str, now_s: float) -> None:
        """More and more rarely; other services do not wait for it."""
        tries, _ = self._later.get(service, (0, 0.0))
        self._later[service] = (tries + 1, now_s + AGAIN_S[min(tries, len(AGAIN_S) - 1)])

    def forgive(self, service: str) -> None:
        self._later.pop(service, None)

    def arrived(self, service: str) -> None:
        """It is where it must be, or something new is wanted."""
        self.stuck.pop(service, None)
        self.forgive(service)

    def waiting(self, now_s: float) -> set[str]:
        return {name for name, (_, at_s) in self._later.items() if at_s > now_s}

    # ---- after a pass

    def begin_again(self) -> None:
        """Something new is wanted."""
        self._tries = 0

    def eased(self, left: Collection[str], is_busy: Callable[[str], bool], began_s: float) -> list[str]:
        """Services that were to be tried again when the pass began, and have nothing to do any more: what they waited
        for came without them."""
        due = [name for name, (_, at_s) in self._later.items() if at_s <= began_s]
        return [name for name in due if name not in left and not is_busy(name)]

    def looked(self, left: Collection[str], down: Collection[str]) -> bool:
        """`left` have work, `down` have something that does not run. True if other services are at rest now."""
        self.has_looked = True
        unrest = {*left, *down, *self._later}
        is_news = unrest != self.unrest
        self.unrest = unrest
        return is_news

    def lost(self) -> None:
        """The runtime does not answer."""
        self.has_looked = False

    def calm(self, down: Collection[str], next_try_s: float | None, now_s: float, began_s: float) -> Pause:
        """Nothing is left to do. `next_try_s` is when a crashing container may be started again; `began_s` is when the
        pass began: what became due since then was not looked at."""
        self._tries, self._guard = 0, Guard()
        down_s = DOWN_S if set(down) - self._later.keys() else LOOK_S
        again_s = min((at_s - now_s for _, at_s in self._later.values() if at_s > began_s), default=LOOK_S)
        soon_s = min(LOOK_S if next_try_s is None else next_try_s, down_s, again_s)
        return Pause(max(soon_s, SOON_S))

    def stalled(self, seen: Iterable[object], work: Sequence[Work]) -> str | None:
        """Why it makes no sense to go on like this; None while it does."""
        actions = [f"{item.stage} {item.service}" for item in work]
        self._guard = self._guard.after(fingerprint(list(seen), actions))
        return self._guard.reason()

    def back_off(self) -> Pause:
        """Events are no reason to try again sooner: most of them are effects of the try itself."""
        self._tries += 1
        return Pause(AGAIN_S[min(self._tries, len(AGAIN_S)) - 1], deaf=True)
