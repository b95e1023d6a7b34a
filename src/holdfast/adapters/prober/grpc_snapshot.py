"""One `holdfast.v1.SnapshotService/Snapshot` request and its response as bytes (M-50). Pure; knows no socket."""

from collections.abc import Iterator

from holdfast.adapters.prober.grpc_health import Said
from holdfast.ports.prober import Snapshotted

PATH = b"/holdfast.v1.SnapshotService/Snapshot"
NOTHING = "it returned no answer; check that it serves holdfast.v1.SnapshotService"
_SUCCESS, _ERROR, _FILE = 1, 2, 3
_VARINT, _TEXT = 0, 2


def read(said: Said) -> Snapshotted:
    """What is no such message is no success."""
    if said.status is None:
        return Snapshotted(False, said.why)
    try:
        found = dict(_fields(said.body))
        texts = {key: value.decode() for key, value in found.items() if isinstance(value, bytes)}
    except (ValueError, IndexError):
        return Snapshotted(False, "its answer is no SnapshotResponse")
    if found.get(_SUCCESS) != 1:
        return Snapshotted(False, texts.get(_ERROR, "") or "it answered without success and without an error")
    return Snapshotted(True, path=texts.get(_FILE, ""))


def _fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(body):
        key, at = _number(body, at)
        value, at = _number(body, at)
        if key & 7 == _TEXT:
            if at + value > len(body):
                raise ValueError("it is cut off")
            yield key >> 3, body[at : at + value]
            at += value
        elif key & 7 == _VARINT:
            yield key >> 3, value
        else:
            raise ValueError("another type of field")


def _number(body: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while body[at] & 0x80:
        found |= (body[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise ValueError("a number that is too long")
    return found | body[at] << shift, at + 1
