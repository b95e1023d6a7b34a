"""An image registry that resolves tags to digests."""

from collections.abc import Mapping, Sequence
from typing import Protocol

ABSENT = ""  # in place of a digest: the registry answered that it has no such image or tag


class Registry(Protocol):
    def resolve(self, references: Sequence[str]) -> Mapping[str, str]:
        """Reference → "sha256:…", or ABSENT; those without an answer, or without access, are left out."""
        ...
