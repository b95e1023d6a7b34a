"""A list of objects that another machine answers page by page: it is not believed that it ends."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast.errors import Corrupt
from holdfast.model import backup_key
from holdfast.ports.backup_target import StoredObject

OBJECTS_MAX = 1_000_000  # sixteen terabytes of one service

Page = tuple[Sequence[StoredObject], bool]  # and whether there are more


async def listed(prefix: str, page: Callable[[str], Awaitable[Page]]) -> list[StoredObject]:
    """`page`: the objects after this key."""
    backup_key.check_prefix(prefix)
    found: list[StoredObject] = []
    while True:
        after = found[-1].key if found else ""
        objects, more = await page(after)
        new = [one for one in objects if one.key > after and one.key.startswith(prefix) and backup_key.is_key(one.key)]
        found += new
        if not more or not new:
            return found
        if len(found) > OBJECTS_MAX:
            raise Corrupt(
                f"the list of {prefix} has no end: {len(found):,} objects were shown so far",
                remedy="look at the machine that answers: `holdfast status` shows it",
                code="too_many_objects",
            )
