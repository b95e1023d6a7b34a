"""Stored backups are read back and pruned: only what this node signed counts, and damage is forgotten by no proof."""

import asyncio
from hashlib import sha256

import pytest

from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.agent.backups.pruning import Pruning
from holdfast.agent.backups.store import Store
from holdfast.agent.backups.targets.attached import Target
from holdfast.agent.backups.verified import Verified
from holdfast.errors import Corrupt, Failed, SignatureRequired
from holdfast.model import backup_key
from holdfast.model.backup import Receipt, Stored
from holdfast.model.backup_key import parse
from holdfast.model.proven_address import ProvenAddress
from holdfast.ports.backup_target import Prunable
from holdfast.reconcile import retention
from holdfast.reconcile.retention import Policy
from holdfast.trust import receipts
from tests.fleets.desks import key_of

FLEET, LAST = "f" * 64, Policy(last=1)


class Place:
    """A target with backups of web."""

    def __init__(self) -> None:
        self.inner = MemoryTarget()
        store = Store(self.inner, FLEET)
        self.at = Target(self.inner, store, Verified(store, MemoryJournal()), None)
        self.proven = set[str]()
        self.pruning = Pruning(
            key=key_of("w1"),
            fleet=FLEET,
            node="w1",
            vouch=lambda address: ProvenAddress(7, address),
            proven=lambda service: self.proven,
        )

    def put(self, sequence: int, node: str = "w1") -> str:
        """A backup with a manifest and two packs; the digest of its receipt."""
        self.inner.objects[backup_key.sealed(FLEET, "web", 1, "keys", b"sealed key")] = b"sealed key"
        contents = [f"{kind} {node} {sequence}".encode() for kind in ("manifest", "pack", "other")]
        for kind, content in zip(("manifests", "packs", "packs"), contents, strict=True):
            self.inner.objects[backup_key.sealed(FLEET, "web", 1, kind, content)] = content  # type: ignore[arg-type]
        manifest, *packs = (Stored(sha256(content).hexdigest(), len(content)) for content in contents)
        made = Receipt(1, FLEET, "web", node, sequence, 1, 1, 1000 + sequence, "order", manifest, tuple(packs), 2, 20)
        content = receipts.sign(key_of(node), made)
        self.inner.objects[backup_key.receipt(FLEET, "web", sequence, content)] = content
        return sha256(content).hexdigest()

    def look(self, digest: str) -> tuple[str, ...]:
        return asyncio.run(self.at.verified.look("web", digest, 1.0))

    def prune(self, policy: Policy = LAST) -> int:
        return asyncio.run(self.pruning.prune(self.at, "web", policy))

    def held(self) -> list[int]:
        return [parse(key).sequence for key in sorted(self.inner.objects) if parse(key).kind == "receipts"]

    def key(self, kind: str, sequence: int) -> str:
        digest = sha256(f"{kind} w1 {sequence}".encode()).hexdigest()
        (found,) = [key for key in self.inner.objects if key.endswith(digest)]
        return found


@pytest.mark.parametrize("kind", ["manifest", "pack", "other"])
@pytest.mark.parametrize("how", ["changed", "missing"])
def test_a_backup_that_was_right_and_is_damaged_now_counts_as_read_no_more(kind: str, how: str) -> None:
    place = Place()
    digest = place.put(1)
    assert place.look(digest) == () and set(place.at.verified.of("web")) == {digest}
    key = place.key(kind, 1)
    if how == "missing":
        del place.inner.objects[key]
    else:
        place.inner.objects[key] = b"rotten"
    (flaw,) = place.look(digest)
    assert key in flaw and place.at.verified.of("web") == {}
    assert place.at.verified.damaged("web") == (frozenset() if kind == "manifest" else {key[-64:]})


@pytest.mark.parametrize("how", ["changed", "missing"])
def test_a_backup_whose_key_is_damaged_or_gone_is_not_right(how: str) -> None:
    """No byte of it could be read."""
    place = Place()
    digest = place.put(1)
    assert place.look(digest) == ()
    (key,) = [key for key in place.inner.objects if parse(key).kind == "keys"]
    if how == "missing":
        del place.inner.objects[key]
    else:
        place.inner.objects[key] = b"rotten"
    (flaw,) = place.look(digest)
    assert "key" in flaw and place.at.verified.of("web") == {} and place.at.verified.damaged("web") == frozenset()
    place.inner.objects[backup_key.sealed(FLEET, "web", 1, "keys", b"addressed again")] = b"addressed again"
    assert place.look(digest) == (), "one whole key opens it"


def test_a_target_that_fails_says_nothing_about_a_backup() -> None:
    place = Place()
    digest = place.put(1)
    assert place.look(digest) == ()
    place.inner.trouble = Failed("the disk is strange", remedy="look at it")
    with pytest.raises(Failed, match="strange"):
        place.look(digest)
    assert set(place.at.verified.of("web")) == {digest}, "what was read before counts"


def test_nothing_goes_before_one_of_those_that_stay_was_read_back() -> None:
    place = Place()
    digests = [place.put(number) for number in (1, 2, 3)]
    assert place.prune() == 0 and place.held() == [1, 2, 3]
    place.look(digests[0])
    assert place.prune() == 1 and place.held() == [1, 3], "the newest one that was read back stays"
    place.look(digests[2])
    assert place.prune() == 1 and place.held() == [3]
    assert len(place.inner.objects) == 5, "with its key and the objects that it names, and no others"


def test_the_newest_proven_one_stays_and_a_proof_is_not_a_reading() -> None:
    place = Place()
    digests = [place.put(number) for number in (1, 2, 3, 4)]
    place.proven = {digests[0], digests[1]}
    assert place.prune() == 0
    place.look(digests[3])
    assert place.prune() == 2 and place.held() == [2, 4]


@pytest.mark.parametrize("what", ["of another node", "damaged"])
def test_a_receipt_that_cannot_be_verified_stays_and_keeps_every_object(what: str) -> None:
    place = Place()
    place.put(1)
    digest = place.put(2)
    if what == "damaged":
        place.put(9)
        (key,) = [key for key in place.inner.objects if "/00000009-" in key]
        place.inner.objects[key] = b"rotten"
    else:
        place.put(9, "w2")
    place.look(digest)
    before = len(place.inner.objects)
    if what == "damaged":
        with pytest.raises(Corrupt, match=r"hub has a damaged receipt.*/00000009-") as found:
            place.prune()
        assert "look at the disk of hub" in found.value.remedy
    else:
        assert place.prune() == 1
    assert place.held() == [2, 9] and len(place.inner.objects) == before - 1, "what it needs is not known"


@pytest.mark.parametrize(
    ("proven", "read", "left"),
    [({2}, {1, 3, 4}, [2, 3, 4]), (set(), {1, 2, 3, 4}, [4]), (set(), {1, 2}, [2, 3, 4]), ({4}, {1}, [1, 2, 3, 4])],
)
def test_the_gate_keeps_the_newest_proven_and_the_last_backup_whatever_a_rule_says(
    proven: set[int], read: set[int], left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place()
    digests = {number: place.put(number) for number in (1, 2, 3, 4)}
    place.proven = {digests[number] for number in proven}
    for number in read:
        place.look(digests[number])
    monkeypatch.setattr(retention, "kept", lambda held, policy: {})
    with pytest.raises(SignatureRequired, match="may not"):
        place.prune()
    assert place.held() == left
    for number in left:
        assert place.look(digests[number]) == (), "with all that they need"


def test_the_gate_keeps_what_a_backup_needs_whatever_a_rule_says(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    digest = place.put(1)
    place.look(digest)
    monkeypatch.setattr(retention, "unneeded", lambda kept, stored: set(stored))
    with pytest.raises(SignatureRequired, match="may not"):
        place.prune()
    assert place.look(digest) == ()


def test_a_backup_that_is_proven_while_others_are_deleted_stays() -> None:
    place = Place()
    digests = [place.put(number) for number in (1, 2, 3)]
    place.look(digests[2])
    delete = place.inner.delete

    async def drilled(key: str, proof: Prunable) -> None:
        await delete(key, proof)
        place.proven = {digests[1]}

    place.inner.delete = drilled  # type: ignore[method-assign]
    with pytest.raises(SignatureRequired):
        place.prune()
    assert place.held() == [2, 3]
    assert place.prune() == 0 and place.held() == [2, 3], "the next one knows"


def test_a_deletion_that_has_begun_ends_before_a_backup_begins() -> None:
    """Else the backup would rely on an object that is there when it asks, and is gone when it is made."""
    place = Place()
    digests = [place.put(number) for number in (1, 2)]
    place.look(digests[1])
    delete, begun = place.inner.delete, asyncio.Event()

    async def slow(key: str, proof: Prunable) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        await delete(key, proof)

    place.inner.delete = slow  # type: ignore[method-assign]

    async def cut() -> list[int]:
        work = asyncio.ensure_future(place.pruning.prune(place.at, "web", LAST))
        await begun.wait()
        work.cancel()
        await asyncio.wait({work})
        return place.held()

    assert asyncio.run(cut()) == [2]


def test_space_is_freed_after_each_pruning_also_of_what_an_agent_left_that_was_killed() -> None:
    place = Place()
    place.look(place.put(1))
    orphan = backup_key.sealed(FLEET, "web", 1, "packs", b"of a backup whose receipt is gone")
    place.inner.objects[orphan] = b"of a backup whose receipt is gone"
    tidied: list[set[str]] = []

    async def tidy() -> None:
        tidied.append(set(place.inner.objects))

    place.inner.tidy = tidy  # type: ignore[attr-defined]
    assert place.prune() == 0 and len(tidied) == 1 and orphan not in tidied[0]
