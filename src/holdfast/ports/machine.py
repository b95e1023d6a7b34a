"""The machine an agent runs on: its size and load, and its architecture."""

from typing import Protocol

from holdfast.model.report import Facts


class Machine(Protocol):
    def facts(self) -> Facts: ...

    def arch(self) -> str: ...
