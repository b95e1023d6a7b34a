"""The file of a hub in memory, for tests and simulation: none, unless a test says where it is."""

from holdfast.errors import Failed


class MemoryHubCopy:
    def __init__(self) -> None:
        self.top = ""
        self.fetched = 0

    async def fetch(self) -> str:
        if not self.top:
            raise Failed("the hub made no file of itself", remedy="holdfast status", code="hub_file_failed")
        self.fetched += 1
        return self.top

    def clear(self) -> None:
        return None
