"""Messages about the sealed file of a hub."""

from msgspec import Struct


class HubFileAnswer(Struct, frozen=True, omit_defaults=True):
    """`digest`: the sha256 of the sealed file; "" while the hub makes it: ask again."""

    digest: str = ""
    size_bytes: int = 0
