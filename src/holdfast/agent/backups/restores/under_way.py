"""What is being brought back on this node now, for the report."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.model.backup_report import RestoreState
from holdfast.ports.archive import Progress


class UnderWay:
    """`changed` is called when the report may have changed."""

    def __init__(self, now_s: Callable[[], float], changed: Callable[[], None]) -> None:
        self._now_s = now_s
        self._changed = changed
        self._known: dict[str, RestoreState] = {}

    def states(self) -> tuple[RestoreState, ...]:
        return tuple(one for _, one in sorted(self._known.items()))

    def begin(self, service: str, total_bytes: int) -> Callable[[Progress], None]:
        self._keep(RestoreState(service, self._now_s(), total_bytes=total_bytes))

        def tell(progress: Progress) -> None:
            if service in self._known:
                self._keep(replace(self._known[service], done_bytes=progress.size_bytes))

        return tell

    def load(self, service: str) -> None:
        """Its files are there, and a command brings its dump back."""
        if service in self._known:
            self._keep(replace(self._known[service], loads=True))

    def end(self, service: str) -> None:
        if self._known.pop(service, None) is not None:
            self._changed()

    def _keep(self, state: RestoreState) -> None:
        self._known[state.service] = state
        self._changed()
