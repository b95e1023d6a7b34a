"""Files of the state directory, by a list of what is taken: what is not on it is never copied."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress

from holdfast.adapters.walking import private

# Envoy's own copies of certificates (proxy/secrets) are written again from `routes`.
TAKEN = (
    "identity.json",
    "routes",
    "acme",
    "proxy/bootstrap.json",
    "proxy/clusters",
    "proxy/listeners",
    "proxy/requests",
    "proxy/openers",
)
CERTIFICATES = "routes"


class StateFiles:
    """`copies` is a directory that nothing else uses."""

    def __init__(self, state_dir: str, copies: str) -> None:
        self._state_dir = state_dir
        self._copies = copies

    def has_any(self) -> bool:
        try:
            return any(name[:1].isalnum() for name in os.listdir(os.path.join(self._state_dir, CERTIFICATES)))
        except OSError:
            return False

    def gather(self) -> str:
        self.clear()
        private.make(self._copies)
        for name in self._names():
            copy = os.path.join(self._copies, name)
            private.make(os.path.dirname(copy))
            with suppress(FileNotFoundError):  # a certificate that was dropped meanwhile
                shutil.copy2(os.path.join(self._state_dir, name), copy, follow_symlinks=False)
        return self._copies

    def clear(self) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._copies)

    def _names(self) -> Iterator[str]:
        """Files only, no symlinks, and none that a crash left incomplete."""
        for taken in TAKEN:
            kind = self._kind(taken)
            inside = sorted(os.listdir(os.path.join(self._state_dir, taken))) if kind == stat.S_IFDIR else []
            names = [os.path.join(taken, name) for name in inside] if kind == stat.S_IFDIR else [taken]
            for name in names:
                is_whole = not os.path.basename(name).startswith(".") and not name.endswith(".new")
                if is_whole and self._kind(name) == stat.S_IFREG:
                    yield name

    def _kind(self, name: str) -> int:
        """0 if there is none."""
        try:
            return stat.S_IFMT(os.lstat(os.path.join(self._state_dir, name)).st_mode)
        except OSError:
            return 0
