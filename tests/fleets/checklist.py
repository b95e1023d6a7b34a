"""The report of a script that is run by hand: one line `ok` or `WRONG` for each check, at the end what is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.fleets.waiting import PATIENCE_S

SETTLED_S = 3 * PATIENCE_S  # a wait ends as soon as its condition holds
PAUSE_S = 0.5


class Checklist:
    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._began_s = time.monotonic()

    def note(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began_s:5.0f} s] {text}", flush=True)

    def check(self, holds: bool, what: str, differs: object = "") -> None:
        self.note(f"{'ok    ' if holds else 'WRONG '} {what}{'' if holds else f': {differs}'}")
        if not holds:
            self.wrong.append(f"{what}: {differs}")

    def wait(self, true: Callable[[], bool], what: str, now: Callable[[], object] = lambda: "") -> None:
        give_up_s = time.monotonic() + SETTLED_S
        while not (holds := true()) and time.monotonic() < give_up_s:
            time.sleep(PAUSE_S)
        self.check(holds, what, "" if holds else f"not within {SETTLED_S:.0f} s; {now()}")

    def exit_code(self, held: str) -> int:
        """Prints what is wrong; `held` if nothing is."""
        if self.wrong:
            print(f"\n{len(self.wrong)} checks failed:", *self.wrong, sep="\n- ")
            return 1
        print(f"\n{held}")
        return 0
