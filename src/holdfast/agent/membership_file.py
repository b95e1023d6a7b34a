"""The file that says which node this is: written when a hub confirmed it, and when its anchors move."""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.agent import membership
from holdfast.agent.membership import Membership
from holdfast.model.revision import Head


class MembershipFile:
    """`write` replaces the content of the file, durably."""

    def __init__(self, member: Membership, write: Callable[[bytes], None]) -> None:
        self._member = member
        self._write = write

    def confirmed(self) -> None:
        self._save(replace(self._member, joined=True))

    def anchored(self, vouched: Head, accepted: Head) -> None:
        self._save(replace(self._member, head=vouched, accepted=accepted))

    def _save(self, member: Membership) -> None:
        self._write(membership.encode(member))
        self._member = member
