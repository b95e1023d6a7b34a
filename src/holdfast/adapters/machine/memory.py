"""A machine with fixed values, for tests."""

from holdfast.model.report import Facts


class MemoryMachine:
    def __init__(self, facts: Facts | None = None, arch: str = "x86_64") -> None:
        self._facts = facts or Facts(2000, 4 << 30, 2 << 30, 100 << 30, 50 << 30)
        self._arch = arch

    def facts(self) -> Facts:
        return self._facts

    def arch(self) -> str:
        return self._arch
