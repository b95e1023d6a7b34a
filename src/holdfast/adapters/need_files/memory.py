"""Values of needs in memory."""

from collections.abc import Mapping, Sequence

from holdfast.ports.need_files import NeedKey


class MemoryNeedFiles:
    def __init__(self) -> None:
        self.values: dict[NeedKey, dict[str, str]] = {}
        self.made: set[NeedKey] = set()

    def put(self, key: NeedKey, values: Mapping[str, str]) -> None:
        self.made.add(key)
        self.values[key] = dict(values)

    def directory(self, key: NeedKey) -> str:
        self.made.add(key)
        return f"/run/needs/{key[0]}/{key[1]}"

    def has(self, key: NeedKey) -> bool:
        return key in self.values

    def forget(self, key: NeedKey) -> None:
        self.values.pop(key, None)
        self.made.discard(key)

    def known(self) -> Sequence[NeedKey]:
        return sorted(self.made)
