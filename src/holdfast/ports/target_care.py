"""What some targets of backups need besides their verbs; both add or free, and neither deletes an object."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Adoptable(Protocol):
    """A target whose marker a node writes when it meets it for the first time."""

    async def adopt(self) -> None: ...


@runtime_checkable
class Tidying(Protocol):
    """A target that frees the space of deleted objects only when it is told to."""

    async def tidy(self) -> None: ...
