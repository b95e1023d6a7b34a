"""Contents by digest, looked up in layers: the candidate's first, then the ledger's. Pure."""

from collections import ChainMap
from collections.abc import Mapping


def layered(first: Mapping[str, bytes], then: Mapping[str, bytes]) -> Mapping[str, bytes]:
    return ChainMap(first, then)  # type: ignore[arg-type]  # typeshed wants mutable maps; this one is only read
