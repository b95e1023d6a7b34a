"""A registry in memory: knows what it was told, under exactly the reference it was told."""

from collections.abc import Mapping, Sequence


class MemoryRegistry:
    def __init__(self, digests: Mapping[str, str] | None = None) -> None:
        self._digests = dict(digests or {})
        self.down = False  # a registry that is down answers for nothing

    def push(self, reference: str, digest: str) -> None:
        self._digests[reference] = digest

    def resolve(self, references: Sequence[str]) -> Mapping[str, str]:
        if self.down:
            return {}
        return {reference: self._digests[reference] for reference in references if reference in self._digests}
