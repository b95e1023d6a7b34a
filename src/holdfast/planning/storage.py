"""Storage targets: what each kind must have. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from holdfast.model import storage_target
from holdfast.model.fleet import Kept, Storage
from holdfast.planning.complaint import Complaint

NOT_BUILT = ("nfs", "cifs", "pbs")  # refused by declared/later.py
_SEALED = {
    "s3": "AWS_ACCESS_KEY_ID=… and AWS_SECRET_ACCESS_KEY=…",
    "restic": "RESTIC_PASSWORD=… (for sftp: RESTIC_SSH_KEY=… and RESTIC_SSH_HOST_KEY=… too)",
}


def named(target: Storage) -> tuple[str, ...]:
    """The secrets that it names."""
    return () if target.secret is UNSET else (target.secret,)


def complaints(target: Storage) -> Iterator[Complaint]:
    """Of one that is in use: what is not attached may be incomplete."""
    if target.name == storage_target.HUB:
        yield Complaint(("name",), "is the name of the hub's own store", "choose another name")
    if target.state != "attached" or target.type in NOT_BUILT:
        return
    yield from _of_id(target)
    yield from _of_location(target)
    yield from _of_secret(target)
    yield from _of_nodes(target)
    if target.policy.retain is not UNSET:
        yield from of_kept(target.policy.retain, ("policy", "retain"))


def of_kept(kept: Kept, at: tuple[str, ...]) -> Iterator[Complaint]:
    if not any(storage_target.counts(kept)):
        yield Complaint(at, "keeps no backup", "write at least one of last, daily, weekly and monthly")


def _of_id(target: Storage) -> Iterator[Complaint]:
    form, remedy = {
        "usb": (storage_target.UUID_FORM, "write the UUID of its file system, as `blkid` prints it"),
        "restic": (storage_target.REPOSITORY_FORM, "write the id of the repository, as `restic cat config` prints it"),
    }.get(target.type, (storage_target.MARKER_FORM, "use letters, digits and . _ : @ / + = , - (at most 200)"))
    if form.fullmatch(target.durable_id) is None:
        yield Complaint(("durable_id",), f"is not a durable id of a target of type {target.type}", remedy)


def _of_location(target: Storage) -> Iterator[Complaint]:
    at = ("location",)
    if target.type == "usb":
        if target.location:
            yield Complaint(at, "has no effect: the disk is mounted below the run directory", "remove location")
    elif target.type == "s3":
        if storage_target.bucket(target.location) is None:
            what = "is not the address of a bucket"
            yield Complaint(at, what, 'write location = "https://HOST/BUCKET", perhaps with /FOLDER')
    elif target.type == "local-dir":
        if not _is_plain_path(target.location):
            yield Complaint(at, "is not the path of a directory", 'write location = "/mnt/NAME", without . and ..')
    elif not target.location:
        remedy = 'write location = "/path", "sftp:USER@HOST:/path" or "rest:https://HOST/"'
        yield Complaint(at, "is empty, so the repository cannot be found", remedy)
    elif target.location.startswith("sftp:") and storage_target.sftp(target.location) is None:
        remedy = 'write location = "sftp:USER@HOST:/path" or "sftp://USER@HOST:PORT//path"'
        yield Complaint(at, "is not the address of a directory on an SFTP server", remedy)
    if storage_target.has_password(target.location):
        remedy = "seal RESTIC_REST_USERNAME=… and RESTIC_REST_PASSWORD=… in the secret of the target"
        yield Complaint(at, "has a password, which every reader of the ledger would know", remedy)


def _of_secret(target: Storage) -> Iterator[Complaint]:
    if target.type in _SEALED and target.secret is UNSET:
        remedy = f'seal {_SEALED[target.type]} with `holdfast secret set NAME`, and write secret = "NAME"'
        yield Complaint((), "has no secret, so no node can open it", remedy)
    if target.type not in _SEALED and target.secret is not UNSET:
        yield Complaint(("secret",), f"has no effect on a target of type {target.type}", "remove secret")


def _of_nodes(target: Storage) -> Iterator[Complaint]:
    if len(set(target.nodes)) < len(target.nodes):
        yield Complaint(("nodes",), "names a node twice", "remove one of them")
    elif target.type == "usb" and len(target.nodes) != 1:
        yield Complaint(
            ("nodes",), "does not name the one node that the disk is plugged into", 'write nodes = ["NAME"]'
        )
    elif target.type in _SEALED and not target.nodes:
        what = "is empty, and the secret is sealed to the nodes that it names"
        yield Complaint(("nodes",), what, 'write nodes = ["NAME", …]')


def _is_plain_path(path: str) -> bool:
    parts = path.rstrip("/").split("/")
    return path.startswith("/") and len(parts) > 1 and {"", ".", ".."}.isdisjoint(parts[1:])


def quarrels(targets: Sequence[Storage]) -> Iterator[tuple[int, Complaint]]:
    """Between targets, with the index of the later one: one place is one copy, and one target decides."""
    seen: dict[str, str] = {}
    primaries: list[tuple[str, frozenset[str]]] = []
    for at, target in enumerate(targets):
        if target.state != "attached":
            continue
        if target.durable_id in seen:
            what = f"is the durable id of {seen[target.durable_id]} too: the same place would count as two copies"
            yield at, Complaint(("durable_id",), what, "remove one of the two targets")
        seen.setdefault(target.durable_id, target.name)
        if target.role == "primary":
            mine = frozenset(target.nodes)
            other = next((name for name, nodes in primaries if not nodes or not mine or nodes & mine), "")
            if other:
                what = f"is primary, and so is {other}, on the same node: one target decides whether a backup is made"
                yield at, Complaint(("role",), what, 'write role = "copy" for one of them')
            primaries.append((target.name, mine))
