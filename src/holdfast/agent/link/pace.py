"""How often this node speaks to its hub: the cadence that the hub asked for, within bounds."""

from holdfast.agent.backoff import Backoff
from holdfast.model.cadence import NORMAL, Cadence, bounded
from holdfast.ports.random_source import RandomSource


class Pace:
    def __init__(self, random: RandomSource) -> None:
        self._random = random
        self._asked: Cadence | None = None
        self.cadence: Cadence = NORMAL
        self.pause = Backoff(random)  # between two tries to reach the hub

    def take(self, asked: Cadence) -> bool:
        """True if it is another one than before."""
        if asked == self._asked:
            return False
        self._asked = asked
        self.cadence = bounded(asked)
        self.pause.fit(asked.window_s)
        return True

    def backoff(self) -> Backoff:
        """For a loop of its own."""
        return Backoff(self._random)

    def start_s(self) -> float:
        """No container gets longer to become healthy; 0.0: as it declares."""
        return self.cadence.start_s
