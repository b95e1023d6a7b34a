"""A backup counts only with a receipt that its node signed, for this fleet and this service (R12, A13)."""

from hashlib import sha256

import pytest
from msgspec.structs import replace

from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.backup import Receipt, SignedReceipt, Stored
from holdfast.trust import receipts

KEY, OTHER = (MemoryIdentityKey(sha256(word).digest()) for word in (b"key of w1", b"another key"))
FLEET = "f" * 64
MADE = Receipt(
    format=1,
    fleet=FLEET,
    service="web",
    node="w1",
    sequence=3,
    epoch=1,
    generation=2,
    made_s=1_700_000_000,
    cause="schedule",
    manifest=Stored("a" * 64, 700),
    packs=(Stored("b" * 64, 5_000), Stored("c" * 64, 300)),
    files=12,
    size_bytes=20_000,
    previous="d" * 64,
)
KEYS = {"w1": KEY.line, "w2": OTHER.line}


def test_a_receipt_is_read_back_with_a_digest_of_its_stored_bytes() -> None:
    stored = receipts.sign(KEY, MADE)
    found = receipts.verify(stored, FLEET, "web", KEYS)
    assert found.receipt == MADE and found.digest == canonical.digest(stored) and found.id == found.digest[:16]
    assert MADE.stored_bytes == 6_000


@pytest.mark.parametrize(
    ("changed", "fleet", "service", "why"),
    [
        ({}, "e" * 64, "web", "of the fleet"),
        ({}, FLEET, "shop", "service.web"),
        ({"node": "w2"}, FLEET, "web", "w2 did not sign it"),
        ({"node": "w9"}, FLEET, "web", "no key of its node w9"),
        ({"format": 2}, FLEET, "web", "format 2"),
    ],
    ids=["fleet", "service", "key of another node", "unknown node", "format"],
)
def test_a_receipt_of_something_else_is_refused(changed: dict[str, object], fleet: str, service: str, why: str) -> None:
    stored = receipts.sign(KEY, replace(MADE, **changed))
    with pytest.raises(Corrupt, match=why) as refused:
        receipts.verify(stored, fleet, service, KEYS)
    assert refused.value.code == "receipt_invalid" and refused.value.remedy


def test_no_changed_byte_of_a_receipt_is_accepted() -> None:
    stored = receipts.sign(KEY, MADE)
    for at in range(len(stored)):
        with pytest.raises(Corrupt):
            receipts.verify(stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :], FLEET, "web", KEYS)
    for cut in (0, 1, len(stored) // 2, len(stored) - 1):
        with pytest.raises(Corrupt):
            receipts.verify(stored[:cut], FLEET, "web", KEYS)
    with pytest.raises(Corrupt):
        receipts.verify(stored + b" ", FLEET, "web", KEYS)


def test_a_signature_for_other_content_or_another_purpose_is_refused() -> None:
    from holdfast.trust import own_signature

    content = canonical.encode(MADE)
    elsewhere = own_signature.armoured(KEY, content, "holdfast-pulse")
    with pytest.raises(Corrupt):
        receipts.verify(canonical.encode(SignedReceipt(content, elsewhere)), FLEET, "web", KEYS)
    other = canonical.encode(replace(MADE, sequence=4))
    signature = own_signature.armoured(KEY, content, "holdfast-backup")
    with pytest.raises(Corrupt):
        receipts.verify(canonical.encode(SignedReceipt(other, signature)), FLEET, "web", KEYS)


def test_a_receipt_that_an_order_names_is_the_one_with_this_digest_for_this_service() -> None:
    stored = receipts.sign(OTHER, MADE)
    assert receipts.named(stored, canonical.digest(stored), FLEET, "web").receipt == MADE
    for digest, fleet, service in (
        (canonical.digest(receipts.sign(KEY, MADE)), FLEET, "web"),
        (canonical.digest(stored), "e" * 64, "web"),
        (canonical.digest(stored), FLEET, "shop"),
    ):
        with pytest.raises(Corrupt):
            receipts.named(stored, digest, fleet, service)
