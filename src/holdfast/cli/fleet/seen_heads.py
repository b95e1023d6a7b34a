"""Heads seen before, in fleet.lock and in this machine's state: detects rollbacks, forks and old checkouts.

Both are written after a commit. Before the commit, this machine's state notes the pending head, so that an apply that
is interrupted between the two does not make the directory look old.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from holdfast.cli.fleet.fleet_identity import KnownHubs
from holdfast.errors import Conflict, Corrupt, HoldfastError
from holdfast.model.applied import Applied
from holdfast.model.ids import DIGEST_PATTERN
from holdfast.model.record import Link
from holdfast.model.revision import Head
from holdfast.model.rules import RulesSince, met_at

if TYPE_CHECKING:
    from holdfast.ports.disk import Disk
    from holdfast.ports.hub_link import HubReader

LOCK_NAME = "fleet.lock"
LOCK_BYTES_MAX = 4096

_LOCK = """\
# The newest revision this directory was applied as. Written by `holdfast apply`; keep it under version control:
# with it Holdfast notices an old checkout and a hub that was rolled back.
fleet = "{fleet}"
number = {number}
digest = "{digest}"
"""


class Seen(Struct, frozen=True):
    fleet: str
    head: Head


class Memory(Struct, frozen=True, omit_defaults=True):
    """This machine's state of one fleet. `pending` is a commit whose result was not seen yet."""

    fleet: str
    head: Head
    pending: Head | None = None
    pending_directory: str = ""
    rules: RulesSince | None = None  # None: written by a release that did not have them


class Heads:
    def __init__(self, disk: "Disk", fleet_dir: str, state_dir: str, hub: str = "") -> None:
        """`hub` is the value of --hub; without it the directory may declare one."""
        self._disk = disk
        self._fleet_dir = os.path.abspath(fleet_dir)
        self._state_dir = state_dir
        self._places = KnownHubs(disk, self._fleet_dir, state_dir, hub)

    # ---- reading

    def lock(self) -> Seen | None:
        text = self._disk.read(os.path.join(self._fleet_dir, LOCK_NAME), LOCK_BYTES_MAX)
        return parse_lock(text) if text is not None else None

    def memory(self, fleet: str) -> Memory | None:
        content = self._disk.read(self._memory_path(fleet), LOCK_BYTES_MAX)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=Memory)
        except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
            raise Corrupt(
                f"the heads that this machine saw before cannot be read: {trouble}",
                remedy=f"remove {self._memory_path(fleet)}; the next command verifies the whole chain again",
                code="memory_damaged",
            ) from trouble

    def check(self, link: "HubReader | None", adopt: bool = False) -> Applied | None:
        """The applied revision, verified against the heads seen before; a new head is stored."""
        lock = self.lock()
        applied = link.applied() if link is not None else None
        if applied is None:
            if lock is not None:
                raise _rolled_back(Head(0, ""), lock.head)
            return None
        if lock is not None and lock.fleet != applied.fleet_id:
            raise _other_fleet(lock.fleet, applied.fleet_id)
        memory = self.memory(applied.fleet_id)
        if lock is None:
            self._places.check(applied.fleet_id, applied.trust, memory is not None)
        lock = self._finish_pending(memory, applied, lock)
        if not adopt:
            _refuse_old_directory(lock, applied.head)
        seen = [s for s in (lock.head if lock else None, memory.head if memory else None) if s is not None]
        for head in seen:
            _refuse_when_behind(link, applied.head, head)
            compare(applied.head, head)
        if applied.head not in seen and link is not None:
            newest = max(seen, key=lambda head: head.number, default=Head(0, ""))
            verify_since(link, applied, newest, _since(memory, applied.head))
        if memory is None or memory.head != applied.head or memory.rules is None or _is_other(memory, applied.head):
            self._remember(Memory(applied.fleet_id, applied.head, rules=_since(memory, applied.head)))
        self._places.met(applied.fleet_id)
        return applied

    def _finish_pending(self, memory: Memory | None, applied: Applied, lock: Seen | None) -> Seen | None:
        """If an interrupted apply from this directory was committed, only its fleet.lock was missing: write it."""
        if memory and memory.pending == applied.head and memory.pending_directory == self._fleet_dir:
            self._try_lock(applied.fleet_id, applied.head)
            return Seen(applied.fleet_id, applied.head)
        return lock

    # ---- writing

    def expect(self, fleet: str, base: Head, pending: Head) -> None:
        """Written to disk before the commit is sent."""
        self._remember(Memory(fleet, base, pending, self._fleet_dir, _since(self.memory(fleet), base)))

    def moved(self, fleet: str, head: Head) -> HoldfastError | None:
        """After the commit nothing raises; returns the error if fleet.lock could not be written."""
        trouble = self._try_lock(fleet, head)
        self._places.met(fleet)  # a fleet founded again replaces the one before
        rules = _since(self._remembered(fleet), Head(head.number - 1, ""))
        if trouble is None:
            self._remember(Memory(fleet, head, rules=rules))
        else:
            self._remember(Memory(fleet, head, head, self._fleet_dir, rules))  # the next command tries again
        return trouble

    def _remembered(self, fleet: str) -> Memory | None:
        try:
            return self.memory(fleet)
        except HoldfastError:
            return None

    def _try_lock(self, fleet: str, head: Head) -> HoldfastError | None:
        try:
            self._write_lock(fleet, head)
        except HoldfastError as trouble:
            return trouble
        return None

    def _write_lock(self, fleet: str, head: Head) -> None:
        text = _LOCK.format(fleet=fleet, number=head.number, digest=head.digest)
        self._disk.replace(os.path.join(self._fleet_dir, LOCK_NAME), text.encode(), 0o644)

    def _remember(self, memory: Memory) -> None:
        self._disk.make_directory(os.path.dirname(self._memory_path(memory.fleet)))
        self._disk.replace(self._memory_path(memory.fleet), msgspec.json.encode(memory))

    def _memory_path(self, fleet: str) -> str:
        return os.path.join(self._state_dir, "heads", fleet + ".json")


def parse_lock(text: bytes) -> Seen:
    import re

    import tomli

    try:
        value = tomli.loads(text.decode())
        fleet, number, digest = value["fleet"], value["number"], value["digest"]
        sound = isinstance(number, int) and number > 0 and all(re.match(DIGEST_PATTERN, d) for d in (fleet, digest))
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise Corrupt(
            "fleet.lock is damaged",
            remedy="restore it from version control (`git checkout fleet.lock`); "
            "without a good copy, remove it: the next command verifies the whole chain",
            code="lock_damaged",
        )
    return Seen(fleet, Head(number, digest))


def compare(head: Head, seen: Head) -> None:
    if head.number < seen.number:
        raise _rolled_back(head, seen)
    if head.number == seen.number and head.digest != seen.digest:
        raise Corrupt(
            f"the ledger's revision {head.number} is {head.digest[:12]}…, but {seen.digest[:12]}… was seen before",
            remedy="do not apply: the chain was forked. Restore the ledger that has the known revision, "
            "or ask the other operators what they applied",
            code="forked",
        )


def _since(memory: Memory | None, head: Head) -> RulesSince:
    """What this machine meets for the first time is judged by the rules of its time, all later revisions by these."""
    return memory.rules if memory is not None and memory.rules is not None else met_at(head.number)


def _is_other(memory: Memory, head: Head) -> bool:
    return memory.pending is not None and memory.pending != head


def verify_since(link: "HubReader", applied: Applied, seen: Head, since: RulesSince) -> None:
    """Verify every revision between the newest one seen before and the head, as a hub does."""
    from holdfast.hub.ledger.chain_check import follow, from_seen, from_the_start

    links: Sequence[Link] = link.links(max(seen.number, 1), applied.head.number)
    try:
        if seen.number == 0:
            so_far = from_the_start(applied.fleet_id)
        else:
            so_far = from_seen(applied.fleet_id, seen, links[0], applied.contents)
            links = links[1:]
        for each in links:
            so_far = follow(so_far, each, applied.contents, since)
    except Corrupt as trouble:
        if trouble.code != "blob_missing":
            raise
        raise Corrupt(
            f"the revisions since {seen.number} cannot be verified: {trouble.message}",
            remedy="get the newest fleet.lock (`git pull`): it names a revision to start from, which a rebuilt ledger "
            "(`holdfast import ledger`) needs; else run `holdfast hub check` on the hub",
            code="history_not_kept",
        ) from trouble
    if so_far.at.head != applied.head or so_far.table != applied.table:
        raise Corrupt(
            "the hub's head is not the end of the chain it shows",
            remedy="do not apply; run `holdfast hub check` on the hub's state directory",
            code="chain_broken",
        )


def _refuse_old_directory(lock: Seen | None, head: Head) -> None:
    if lock is not None and lock.head.number < head.number:
        raise Conflict(
            f"this directory was last applied as revision {lock.head.number}, but revision {head.number} is applied: "
            "it may be an old checkout",
            remedy="update the directory (`git pull`); or, if its files are what you want, run the same command with "
            "--adopt to plan from them on top of the newer revision",
            code="old_directory",
        )


def _refuse_when_behind(link: "HubReader | None", head: Head, seen: Head) -> None:
    """A hub that reports a newer head than it serves was not rolled back; it only needs a restart (C-16)."""
    if link is None or head.number >= seen.number:
        return
    status = link.status()
    if status.head.number >= seen.number:
        raise Conflict(
            f"the hub serves revision {head.number}, but its ledger holds revision {status.head.number}",
            remedy="restart the hub: it then serves the newest revision of its ledger",
            code="revision_behind",
        )


def _rolled_back(head: Head, seen: Head) -> Corrupt:
    where = f"is at revision {head.number}" if head.number else "is missing or empty"
    founding = "" if head.number else "; only to found a new fleet from this directory: remove fleet.lock"
    missing = seen.number - head.number
    misses = f", and misses {missing} revision{'s' * (missing != 1)}" if head.number else ""
    return Corrupt(
        f"the ledger {where}, but revision {seen.number} was seen before: it was lost or rolled back{misses}",
        remedy="check --hub; restore the newest ledger from a backup, or rebuild it from the nodes: "
        f"holdfast import ledger --help{founding}",
        code="rolled_back",
    )


def _other_fleet(expected: str, found: str) -> Corrupt:
    return Corrupt(
        f"fleet.lock belongs to fleet {expected[:12]}…, the ledger to {found[:12]}…",
        remedy="check --hub and --fleet: this directory and that hub do not belong together",
        code="other_fleet",
    )
