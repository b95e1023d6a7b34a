"""What can be wrong with a target, as errors with a code each, and the state that a look shows for each code."""

import errno
from collections.abc import Mapping

from holdfast.errors import Conflict, Failed, HoldfastError, NotPermitted, TryLater
from holdfast.ports.backup_target import Prunable, TargetCondition

CONDITION_OF: Mapping[str, TargetCondition] = {
    "target_missing": "missing",
    "no_space": "full",
    "target_read_only": "read_only",
    "target_refused": "refused",
    "not_a_plain_directory": "refused",
    "target_failing": "failing",
}

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.EACCES, errno.EPERM)
_STRANGE = (errno.ELOOP, errno.ENOTDIR, errno.EXDEV)
# A disk that was pulled out, a server that went away, a file system that shut itself down.
_GONE = (errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.ENOTCONN, errno.ESHUTDOWN, errno.ETIMEDOUT, errno.EHOSTDOWN)


def condition(trouble: HoldfastError) -> TargetCondition:
    if trouble.code in CONDITION_OF:
        return CONDITION_OF[trouble.code]
    if isinstance(trouble, NotPermitted):
        return "refused"
    return "missing" if isinstance(trouble, TryLater) else "failing"


def missing(where: str, why: str) -> TryLater:
    return TryLater(
        f"the backup target {where} is missing: {why}",
        remedy="connect or mount it again; nothing was written in its place",
        code="target_missing",
    )


def silent(where: str, limit_s: float) -> TryLater:
    return missing(where, f"it does not answer within {limit_s:.0f} s")


def full(where: str, why: str) -> Failed:
    return Failed(
        f"the backup target {where} is full: {why}; what is stored there is unchanged",
        remedy="free space there, or attach a larger target",
        code="no_space",
    )


def read_only(where: str) -> Failed:
    return Failed(
        f"the backup target {where} is mounted read-only",
        remedy="mount it read-write; if the kernel made it read-only, check its file system first",
        code="target_read_only",
    )


def refused(where: str, why: str) -> NotPermitted:
    return NotPermitted(
        f"the backup target {where} refuses this machine: {why}",
        remedy="check the owner of the directory, or the credentials of the target",
        code="target_refused",
    )


def failing(where: str, why: str) -> TryLater:
    return TryLater(
        f"the backup target {where} fails: {why}",
        remedy="check the disk or the server; no object is stored in part",
        code="target_failing",
    )


def damaged(where: str, key: str) -> Conflict:
    return Conflict(
        f"other bytes lie under {key} at the backup target {where}: they are damaged, and stay as they are",
        remedy="delete the backups that need this object, or repair the target; the next backup stores it again",
        code="object_damaged",
    )


def not_this_one(key: str, proof: Prunable) -> NotPermitted:
    return NotPermitted(
        f"the proof is about {proof.key}, not about {key}",
        remedy="ask the gate about the object that is to be deleted",
        code="proof_of_another",
    )


def of(where: str, trouble: OSError) -> HoldfastError:
    number, words = trouble.errno or 0, trouble.strerror or str(trouble)
    if number in _FULL:
        return full(where, words)
    if number == errno.EROFS:
        return read_only(where)
    if number in _REFUSED:
        return refused(where, words)
    if number in _GONE:
        return missing(where, words)
    if number in _STRANGE:
        return NotPermitted(
            f"the backup target {where} has a symbolic link, a file or a mount where a directory of objects must be",
            remedy="look at what lies there, and put a plain directory in its place",
            code="not_a_plain_directory",
        )
    return failing(where, words)
