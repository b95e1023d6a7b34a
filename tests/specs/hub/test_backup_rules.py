"""What a hub stores as a receipt, and what it lets a node delete: never more than retention does (A13, W13)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from holdfast.adapters.backup_target.memory_objects import MemoryObjects
from holdfast.errors import Corrupt, Invalid
from holdfast.hub.backups.deletion import Deletion
from holdfast.hub.backups.receipt_rule import ReceiptRule
from holdfast.hub.backups.store import RECEIPT_BYTES_MAX
from holdfast.hub.ledger.revisions import Revisions
from holdfast.model import backup_key
from holdfast.model.backup import Cause, Receipt, Stored
from holdfast.model.backup_key import BackupKey, parse
from holdfast.model.principal import Principal
from holdfast.ports.backup_target import StoredObject
from holdfast.trust import receipts
from tests.fleets.build import commit, mailbox, small_fleet, small_service
from tests.fleets.desks import key_of

W1 = Principal("node", "w1", key_of("w1").line)


@pytest.fixture
def hub() -> Revisions:
    found = mailbox()
    commit(found, small_fleet({"web": 1}, ("w1", "w2")))
    return found


def fleet_of(hub: Revisions) -> str:
    applied = hub.applied()
    assert applied is not None
    return applied.fleet_id


def signed(
    hub: Revisions,
    sequence: int,
    node: str = "w1",
    cause: Cause = "schedule",
    service: str = "web",
    epoch: int = 0,
) -> bytes:
    digests = (f"{sequence:064x}", f"{sequence + 1000:064x}")
    manifest, own, shared = Stored(digests[0], 1), Stored(digests[1], 1), Stored("f" * 64, 1)
    made_s = 1_700_000_000 + 86_400 * sequence
    made = Receipt(
        1, fleet_of(hub), service, node, sequence, epoch, 1, made_s, cause, manifest, (own, shared), 3, 300
    )  # fmt: skip
    return receipts.sign(key_of(node), made)


def key(hub: Revisions, content: bytes, sequence: int) -> BackupKey:
    return parse(backup_key.receipt(fleet_of(hub), "web", sequence, content))


def test_a_receipt_that_the_calling_node_signed_is_stored(hub: Revisions) -> None:
    content = signed(hub, 3)
    ReceiptRule(hub)(key(hub, content, 3), bytearray(content), W1)


def test_a_receipt_of_another_node_service_number_or_size_is_not(hub: Revisions) -> None:
    rule = ReceiptRule(hub)
    for content in (signed(hub, 3, "w2"), signed(hub, 3, service="shop"), b"{}", b""):
        with pytest.raises(Corrupt):
            rule(key(hub, content, 3), content, W1)
    with pytest.raises(Corrupt):
        rule(key(hub, signed(hub, 3), 3), signed(hub, 3), Principal("node", "w1", key_of("w2").line))
    with pytest.raises(Invalid):
        rule(key(hub, signed(hub, 3), 4), signed(hub, 3), W1)
    with pytest.raises(Invalid):
        rule(key(hub, b"x", 3), b"x" * (RECEIPT_BYTES_MAX + 1), W1)


def stored(hub: Revisions, *sequences: int, cause: Cause = "schedule") -> tuple[MemoryObjects, dict[int, BackupKey]]:
    objects, keys = MemoryObjects(), {}
    for sequence in sequences:
        content = signed(hub, sequence, cause=cause)
        keys[sequence] = key(hub, content, sequence)
        objects.put(keys[sequence], content)
    return objects, keys


def test_a_node_deletes_receipts_that_retention_does_not_keep_and_no_others(hub: Revisions) -> None:
    """Seven are kept if the fleet declares nothing."""
    objects, keys = stored(hub, *range(1, 11))
    may = Deletion(hub, objects)
    assert [number for number, one in keys.items() if may(one)] == [1, 2, 3]


def test_a_receipt_of_an_epoch_that_the_node_did_not_have_is_not_stored() -> None:
    """A node that gave a service away could push out every backup of the next one."""
    hub = mailbox()
    fleet = small_fleet({"web": replace(small_service("web"), node="w1")}, ("w1", "w2"))
    commit(hub, fleet)
    moved = replace(fleet, services={"web": replace(fleet.services["web"], node="w2")})
    rule, w2 = ReceiptRule(hub), Principal("node", "w2", key_of("w2").line)

    def stores(epoch: int, node: Principal, service: str = "web") -> bool:
        content = signed(hub, 3, node.name, service=service, epoch=epoch)
        try:
            rule(parse(backup_key.receipt(fleet_of(hub), service, 3, content)), content, node)
        except Invalid as trouble:
            assert trouble.code == "later_epoch"
            return False
        return True

    assert [stores(epoch, W1) for epoch in (0, 1, 2)] == [True, True, False]
    assert [stores(epoch, W1, "node.w1") for epoch in (0, 1)] == [True, False]
    commit(hub, moved)
    assert [stores(epoch, w2) for epoch in (1, 2, 3)] == [True, True, False]
    assert [stores(epoch, W1) for epoch in (1, 2)] == [True, False], "as the source of a move"


def test_a_later_epoch_is_newer_whatever_the_number(hub: Revisions) -> None:
    objects, keys = stored(hub, *range(500, 510))
    for sequence in (1, 2):
        content = signed(hub, sequence, epoch=1)
        keys[sequence] = key(hub, content, sequence)
        objects.put(keys[sequence], content)
    may = Deletion(hub, objects)
    assert [number for number, one in keys.items() if may(one)] == [500, 501, 502, 503, 504]


class Hooked(str):
    """A key that calls `compared` when it is compared with an older one."""

    compared: Callable[[], object] | None = None
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        hook, Hooked.compared = Hooked.compared, None
        if hook is not None:
            hook()
        return str.__eq__(self, other)


class Listing(MemoryObjects):
    def listed(self, prefix: str) -> list[StoredObject]:
        return [StoredObject(Hooked(one.key), one.size_bytes) for one in super().listed(prefix)]


def test_what_is_read_of_one_service_is_no_answer_about_another(hub: Revisions) -> None:
    """Two threads of the hub carry out deletions: one asks while the other looks at what it has read."""
    objects = Listing()
    for service, sequence in (("web", 1), ("web", 2), ("shop", 7)):
        content = signed(hub, sequence, service=service)
        objects.put(parse(backup_key.receipt(fleet_of(hub), service, sequence, content)), content)
    may, above = Deletion(hub, objects), f"{fleet_of(hub)[:16]}"
    mine, theirs = parse(f"{above}/web/g1/packs/{1001:064x}"), parse(f"{above}/shop/g1/packs/{1007:064x}")
    assert not may(mine), "a backup needs it"
    Hooked.compared = lambda: may(theirs)
    assert not may(mine)
    assert Hooked.compared is None, "the other thread was there"


def test_an_object_is_deleted_once_no_stored_receipt_names_it_and_a_key_never(hub: Revisions) -> None:
    objects, keys = stored(hub, 1, 2)
    may, above = Deletion(hub, objects), f"{fleet_of(hub)[:16]}/web/g1"
    own, shared, other = (parse(f"{above}/packs/{digest}") for digest in (f"{1001:064x}", "f" * 64, "e" * 64))
    assert (may(own), may(shared), may(other)) == (False, False, True)
    objects.remove(keys[1])
    assert (may(own), may(shared)) == (True, False), "what was read before does not count any more"
    assert not may(parse(f"{above}/keys/{'e' * 64}"))
    objects.remove(keys[2])
    assert not may(other), "without any receipt it may be one that is on its way"


def test_while_a_receipt_is_damaged_nothing_is_deleted(hub: Revisions) -> None:
    objects, keys = stored(hub, *range(1, 11))
    objects.objects[keys[5].text] = b"damaged"
    may = Deletion(hub, objects)
    assert not any(may(one) for one in keys.values())
