"""Files of a node in memory, for tests and simulation: none, unless a test says where they are."""


class MemoryOwnFiles:
    def __init__(self) -> None:
        self.top = ""
        self.gathered = 0

    def has_any(self) -> bool:
        return bool(self.top)

    def gather(self) -> str:
        self.gathered += 1
        return self.top

    def clear(self) -> None:
        return None
