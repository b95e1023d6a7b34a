"""Where image tags are turned into digests."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Registry(Protocol):
    def resolve(self, references: Sequence[str]) -> Mapping[str, str]:
        """Reference → "sha256:…" for those a registry answered for; the others are left out, whatever the reason."""
        ...
