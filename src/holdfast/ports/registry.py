"""An image registry that resolves tags to digests."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Registry(Protocol):
    def resolve(self, references: Sequence[str]) -> Mapping[str, str]:
        """Reference → "sha256:…" for those a registry answered; the others are left out, whatever the reason."""
        ...
