"""Sign and verify receipts of backups. The only maker of `VerifiedReceipt`. Pure."""

from collections.abc import Mapping

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.backup import FORMAT, NAMESPACE, Receipt, SignedReceipt, VerifiedReceipt
from holdfast.ports.identity_key import IdentityKey
from holdfast.trust import own_signature

NONE: Mapping[str, str] = {}
_REMEDY = "`holdfast backup list` shows the backups that are proven; keep the damaged copy and look at its storage"


def sign(key: IdentityKey, receipt: Receipt) -> bytes:
    """The stored form."""
    content = canonical.encode(receipt)
    return canonical.encode(SignedReceipt(content, own_signature.armoured(key, content, NAMESPACE)))


def verify(
    stored: bytes, fleet: str, service: str, keys: Mapping[str, str], former: Mapping[str, str] = NONE
) -> VerifiedReceipt:
    """`keys`: node → its key line; `former`: the one of the machine before. A receipt of another fleet or service is
    refused, whatever its signature."""
    receipt, signed = _read(stored, fleet, service)
    lines = [line for line in (keys.get(receipt.node, ""), former.get(receipt.node, "")) if line]
    if not lines:
        raise _refused(service, f"no key of its node {receipt.node} is known")
    troubles = [trouble for line in lines if (trouble := _unsigned(signed, line)) is not None]
    if len(troubles) == len(lines):
        raise _refused(service, f"{receipt.node} did not sign it: {troubles[0].message}") from troubles[0]
    return VerifiedReceipt(receipt, canonical.digest(stored))


def _unsigned(signed: SignedReceipt, line: str) -> Corrupt | None:
    try:
        own_signature.verify(signed.receipt, signed.signature, NAMESPACE, line)
    except Corrupt as trouble:
        return trouble
    return None


def _read(stored: bytes, fleet: str, service: str) -> tuple[Receipt, SignedReceipt]:
    try:
        signed = canonical.decode(stored, SignedReceipt, "the receipt")
        receipt = canonical.decode(signed.receipt, Receipt, "the receipt")
    except Corrupt as trouble:
        raise _refused(service, trouble.message) from trouble
    if receipt.format != FORMAT:
        raise _refused(service, f"it has format {receipt.format}, and this release reads {FORMAT}")
    if (receipt.fleet, receipt.service) != (fleet, service):
        raise _refused(service, f"it is of service.{receipt.service} of the fleet {receipt.fleet[:12]}…")
    return receipt, signed


def named(stored: bytes, digest: str, fleet: str, service: str) -> VerifiedReceipt:
    """The receipt with this digest, which operators signed for in an order: its own signature would prove no more."""
    receipt, _ = _read(stored, fleet, service)
    if canonical.digest(stored) != digest:
        raise _refused(service, "it is not the one that the order names")
    return VerifiedReceipt(receipt, digest)


def _refused(service: str, why: str) -> Corrupt:
    return Corrupt(f"a receipt of a backup of {service} is refused: {why}", remedy=_REMEDY, code="receipt_invalid")
