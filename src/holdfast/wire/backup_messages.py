"""Messages about the objects of backups at a hub."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.backup_key import KEY_CHARS_MAX
from holdfast.ports.backup_target import StoredObject

KEYS_MAX = 2_000  # in one question
PAGE_OBJECTS = 5_000
PART_BYTES = 4 * 1024 * 1024  # of an object, in one answer

ObjectKey = Annotated[str, Meta(max_length=KEY_CHARS_MAX)]


class ObjectTaken(Struct, frozen=True):
    """The object is durable; `is_new`: it was not there before."""

    key: str
    is_new: bool


class ObjectDeleted(Struct, frozen=True):
    key: str


class PresentRequest(Struct, frozen=True):
    keys: Annotated[tuple[ObjectKey, ...], Meta(max_length=KEYS_MAX)]


class PresentAnswer(Struct, frozen=True):
    """Those of the keys that are there."""

    keys: tuple[str, ...]


class ObjectsPage(Struct, frozen=True):
    """Sorted by key. `more`: ask again, after the last key."""

    objects: tuple[StoredObject, ...]
    more: bool = False
