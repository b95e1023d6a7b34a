"""Messages about the sealed file of a hub."""

from typing import Annotated

from msgspec import Meta, Struct


class HubFileAnswer(Struct, frozen=True, omit_defaults=True):
    """`digest`: the sha256 of the sealed file; "" while the hub makes it: ask again."""

    digest: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$(?!\n)")] = ""
    size_bytes: int = 0
