"""The parts of a check-in: pulse, report, audit lines. Stored as bytes; claimed facts are clamped (D10)."""

import logging

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import Corrupt, HoldfastError, Invalid, NotPermitted
from holdfast.hub.nodes.member import Foremost, Member
from holdfast.ledger import keys
from holdfast.model import audit, canonical
from holdfast.model.audit import NO_ENTRIES, AuditHead
from holdfast.model.checkin import REPORT_BYTES_MAX, RESULTS_MAX, CheckIn
from holdfast.model.report import Pulse, Report, SignedPulse, clamped
from holdfast.model.ssh_key import fingerprint, parse
from holdfast.ports.ledger_store import Reading, Transaction

log = logging.getLogger("holdfast.fleet")

PULSE_BYTES_MAX = 8 * 1024
SIGNATURE_CHARS_MAX = 4 * 1024
AUDIT_LINES_MAX = 256
AUDIT_LINE_BYTES_MAX = 8 * 1024
AUDIT_KEPT_MAX = 2_000  # per node; the node keeps all of it
ADDRESS_CHARS_MAX = 255

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_pulse = msgspec.json.Decoder(Pulse)
_report = msgspec.json.Decoder(Report)


class Kept(Struct, frozen=True):
    """What a restarted hub still knows of a node: its last changed report and the pulse that names it."""

    pulse: SignedPulse
    report: bytes
    address: str = ""


def load(member: Member, store: Reading) -> None:
    record = store.get(keys.report(member.name))
    if record is not None:
        try:
            _load_report(member, record.value)
        except (HoldfastError, *UNREADABLE) as trouble:  # the node sends both again
            log.warning("the stored report of %s cannot be read: %s", member.name, trouble)
    lines = store.scan(keys.node_audit_of(member.name))
    if lines:
        newest = lines[-1]
        number = int(newest.key.rpartition("/")[2])
        member.audit.head = AuditHead(number, canonical.digest(newest.value))
    owner = store.get(keys.node_audit_key(member.name))
    member.audit.key = owner.value.decode() if owner is not None else ""


def _load_report(member: Member, content: bytes) -> None:
    kept = msgspec.json.decode(content, type=Kept)
    member.address = kept.address or member.address
    _note_pulse(member, kept.pulse, _pulse.decode(kept.pulse.pulse))
    if kept.report:  # a node may be silent before it reported anything
        _note_report(member, kept.report)


def take_pulse(member: Member, signed: SignedPulse, fleet: str) -> None:
    """The request was signed by the node, so its pulse is taken as it came; the CLI verifies the pulse itself."""
    if len(signed.pulse) > PULSE_BYTES_MAX or len(signed.signature) > SIGNATURE_CHARS_MAX:
        raise _unreadable("the pulse is too long")
    try:
        pulse = _pulse.decode(signed.pulse)
    except UNREADABLE as trouble:
        raise _unreadable(f"the pulse cannot be read: {trouble}") from trouble
    if pulse.node != member.name or pulse.fleet != fleet:
        raise NotPermitted(
            f"the pulse is of {pulse.node[:60]!r}, but the key is of {member.name}",
            remedy="every node reports only about itself: holdfast node list",
            code="name_mismatch",
        )
    if pulse.sequence < member.newest.sequence and pulse.at_s < member.newest.at_s:
        return  # a newer pulse arrived first
    _note_pulse(member, signed, pulse)


def _note_pulse(member: Member, signed: SignedPulse, pulse: Pulse) -> None:
    foremost = member.foremost if member.foremost is not None and member.foremost.key in ("", member.key) else None
    if foremost is not None and (foremost.life != pulse.life or foremost.counter > pulse.counter):
        member.to_return = foremost.signed  # the node learns from its own signature that its state was put back (X05)
    if foremost is None or pulse.counter >= foremost.counter:
        member.foremost = Foremost(signed, pulse.life, pulse.counter, member.key)
    member.pulse = signed
    member.newest = replace(pulse, facts=clamped(pulse.facts))


def take_report(member: Member, content: bytes) -> bytes | None:
    """What is to be written; None when nothing changed. A report counts only if the newest pulse names it."""
    if len(content) > REPORT_BYTES_MAX:
        raise _unreadable(f"the report is longer than {REPORT_BYTES_MAX:,} bytes")
    digest = canonical.digest(content)
    if digest == member.report_digest or digest != member.pulse_report or member.pulse is None:
        return None
    _note_report(member, content)
    return kept(member)


def kept(member: Member) -> bytes | None:
    if member.pulse is None or member.pulse_report != member.report_digest:
        return None
    return msgspec.json.encode(Kept(member.pulse, member.report_bytes, member.address))


def _note_report(member: Member, content: bytes) -> None:
    try:
        report = _report.decode(content)
    except UNREADABLE as trouble:
        raise _unreadable(f"the report cannot be read: {trouble}") from trouble
    if report.node != member.name:
        raise NotPermitted(
            f"the report is of {report.node[:60]!r}, but the key is of {member.name}",
            remedy="every node reports only about itself: holdfast node list",
            code="name_mismatch",
        )
    member.report, member.report_bytes, member.report_digest = report, content, canonical.digest(content)


def check_results(message: CheckIn) -> None:
    """Check their number first: each may cost a line of the audit log."""
    if len(message.results) > RESULTS_MAX:
        raise _unreadable(f"more than {RESULTS_MAX} results at once")


def wants_report(member: Member) -> bool:
    return member.pulse_report != member.report_digest


def moved_from(member: Member, message: CheckIn) -> str | None:
    """The previous address, if the node reports another one (M-23); None if it does not."""
    if not message.address or message.address == member.address:
        return None
    check_address(message.address)
    return member.address


def check_address(address: str) -> None:
    """It is logged, stored and shown to every client that lists the nodes."""
    if len(address) > ADDRESS_CHARS_MAX or not address.isprintable():
        raise _unreadable("the address is no address")


class CopiedLines(Struct, frozen=True):
    """Lines of a node's log to be stored here, and the head of its chain after them."""

    put: dict[str, bytes]
    delete: tuple[str, ...]
    head: AuditHead


def copy_audit(member: Member, lines: tuple[bytes, ...]) -> CopiedLines | None:
    """Copy the node's own log: a later change of a copied line is noticed (H-36)."""
    if len(lines) > AUDIT_LINES_MAX or any(len(line) > AUDIT_LINE_BYTES_MAX for line in lines):
        raise _unreadable("too much of the audit log at once")
    head = member.audit.head
    put: dict[str, bytes] = {}
    for line in lines:
        number = _number(line)
        if head is not None and number <= head.number:  # known; sent again because an answer was lost
            if number == head.number and canonical.digest(line) != head.digest:
                member.audit.trouble = f"entry {number} of its audit log is another one than before"
            continue
        try:
            head = audit.follow(head if head is not None else _before(line, number), line)
        except Corrupt as trouble:
            member.audit.trouble = trouble.message
            break
        put[keys.node_audit(member.name, number)] = line
    if not put or head is None:
        return None
    if member.audit.key != member.key:
        put[keys.node_audit_key(member.name)] = member.key.encode()
    first, last = head.number - len(lines), head.number - AUDIT_KEPT_MAX
    old = range(max(1, first - AUDIT_KEPT_MAX), last + 1) if last > 0 else range(0)
    return CopiedLines(put, tuple(keys.node_audit(member.name, number) for number in old), head)


def is_other_log(member: Member) -> bool:
    """The copied lines are of another machine that had this name before."""
    return member.audit.head is not None and member.audit.key not in ("", member.key)


def put_aside(member: Member, store: Reading) -> Transaction:
    """Keep the previous machine's lines as evidence under its key; the copy of the new machine's log begins empty."""
    lines = store.scan(keys.node_audit_of(member.name))
    aside = keys.former_audit_of(member.name, fingerprint(parse(member.audit.key)))
    put = {aside + line.key.rpartition("/")[2]: line.value for line in lines}
    put[keys.node_audit_key(member.name)] = member.key.encode()
    return Transaction(expect={}, put=put, delete=[line.key for line in lines])


def _number(line: bytes) -> int:
    return _decoded(line).number


def _before(line: bytes, number: int) -> AuditHead:
    """The head before the first copied line, for a log that began before this hub knew the node."""
    return NO_ENTRIES if number == 1 else AuditHead(number - 1, _decoded(line).previous)


def _decoded(line: bytes) -> audit.AuditEntry:
    try:
        return msgspec.json.decode(line, type=audit.AuditEntry)
    except UNREADABLE as trouble:
        raise _unreadable(f"an audit line cannot be read: {trouble}") from trouble


def _unreadable(why: str) -> Invalid:
    return Invalid(f"this check-in cannot be read: {why}", remedy="run the same release on both: holdfast version")
