"""What a declared storage target is: its location, whether it is on the machine of the data, how fast it is. Pure."""

import re

from msgspec import Struct

from holdfast.model.fleet import Kept, Retain, Storage

HUB = "hub"  # the store of the hub is always a target, and has this name
UUID_FORM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9A-F]{4}-[0-9A-F]{4}")
MARKER_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+=,-]{0,199}")
REPOSITORY_FORM = re.compile(r"[0-9a-f]{64}")
SHARE_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}:/[A-Za-z0-9._:@/+=,-]{0,99}")  # server:/export

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_BUCKET = re.compile(
    r"(?P<endpoint>https?://(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::\d{1,5})?)"
    rf"/(?P<name>[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9])(?P<folder>(?:/{_PART}){{0,8}})/?"
)
_LOGIN, _HOST = r"[^@:/\[\]\s-][^@:/\[\]\s]*", r"[^@:/\[\]\s-][^@:/\[\]\s]*"
_SFTP = re.compile(
    rf"sftp:(?://(?:(?P<user>{_LOGIN})@)?(?P<host>{_HOST}|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{{1,5}}))?/.+"
    rf"|(?:(?P<user2>{_LOGIN})@)?(?P<host2>{_HOST}):.+)"
)
_SERVER = re.compile(r"(sftp|rest|s3|swift|b2|azure|gs|rclone):.+")
_PASSWORD = re.compile(r"//[^/@]*:[^/@]*@")
_ON_A_DISK = ("local-dir", "usb")


class Bucket(Struct, frozen=True, kw_only=True):
    """`prefix` is the folder in the bucket, without slashes at its ends; "" for the whole bucket."""

    endpoint: str
    name: str
    prefix: str = ""
    region: str = "us-east-1"


def bucket(location: str) -> Bucket | None:
    """Of `https://HOST/BUCKET/FOLDER`; None: it is not of that form."""
    found = _BUCKET.fullmatch(location)
    if found is None:
        return None
    return Bucket(endpoint=found["endpoint"], name=found["name"], prefix=found["folder"].strip("/"))


def sftp(location: str) -> tuple[str, str, str] | None:
    """User, host and port of `sftp:USER@HOST:/path` or `sftp://USER@HOST:PORT//path`, "" for what it does not say;
    None: it is of another form."""
    found = _SFTP.fullmatch(location)
    if found is None:
        return None
    return found["user"] or found["user2"] or "", (found["host"] or found["host2"]).strip("[]"), found["port"] or ""


def is_share(durable_id: str) -> bool:
    """The durable id names a share of a server, which the table of mounts must show as the source. A CIFS share
    //server/name is written server:/name."""
    return SHARE_FORM.fullmatch(durable_id) is not None


def has_password(location: str) -> bool:
    return _PASSWORD.search(location) is not None


def is_same_machine(target: Storage) -> bool:
    """A copy there is lost with the machine of the data, so it counts as none."""
    if target.type == "restic":
        return _SERVER.fullmatch(target.location) is None
    return target.type in _ON_A_DISK and not is_share(target.durable_id)


def reading_rank(target: Storage | None) -> tuple[bool, bool, bool, str]:
    """The lowest is read first: what is declared fast, then disks before servers, then what is not offsite. None: the
    hub."""
    if target is None:
        return (False, True, False, HUB)
    return (target.speed != "fast", target.type not in _ON_A_DISK, target.role == "offsite", target.name)


def counts(kept: Kept) -> tuple[int, int, int, int]:
    """The newest ones, days, weeks, months."""
    return (kept.last, kept.daily, kept.weekly, kept.monthly) if isinstance(kept, Retain) else (kept, 0, 0, 0)


def keeps_fewer(before: Kept, after: Kept) -> bool:
    return any(new < old for old, new in zip(counts(before), counts(after), strict=True))


def in_words(kept: Kept) -> str:
    if not isinstance(kept, Retain):
        return str(kept)
    names = ("last", "daily", "weekly", "monthly")
    return ", ".join(f"{name} {count}" for name, count in zip(names, counts(kept), strict=True) if count) or "none"
