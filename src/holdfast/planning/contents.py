"""Contents by digest, looked up in layers: what a candidate brings before what the ledger holds. Pure."""

from collections import ChainMap
from collections.abc import Mapping


def layered(first: Mapping[str, bytes], then: Mapping[str, bytes]) -> Mapping[str, bytes]:
    return ChainMap(first, then)  # type: ignore[arg-type]  # typeshed wants mutable maps; nobody writes here
