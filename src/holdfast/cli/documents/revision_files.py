"""`holdfast history show N --files DIR`: the declared documents and sealed secrets of a revision, as files."""

import os
from argparse import Namespace
from shlex import quote

import msgspec

from holdfast.cli.fleet import session
from holdfast.cli.fleet.history_show import table_at
from holdfast.cli.sizes import counted
from holdfast.cli.tools import Toolbox
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.load import load
from holdfast.declared.rendered import LOST, Rendered, render
from holdfast.errors import Conflict, Corrupt, HoldfastError, Invalid
from holdfast.model.applied import Applied
from holdfast.model.record import Link
from holdfast.model.revision import digest_of
from holdfast.ports.hub_link import HubReader


def write(number: int, hub: HubReader, args: Namespace, box: Toolbox) -> int:
    _check_directory(args.files, args.fleet)
    applied = session.heads(args, box).check(hub, adopt=True)
    assert applied is not None
    found = render(number, table_at(hub, _proven(hub, applied, number)), applied.contents)
    try:
        box.disk.make_tree(args.files.rstrip("/") or "/", found.files, 0o755, 0o644)
    except HoldfastError as trouble:
        if not os.path.lexists(os.path.join(args.files, FLEET_FILE)):  # else it is whole, and not proven to be durable
            trouble.message += f". Nothing of revision {number} was left in {args.files}"
        raise
    for note in (*found.notes, *_mistakes(found, box)):
        box.terminal.warn(note)
    if args.json:
        document = {"number": number, "directory": args.files, "files": sorted(found.files), "notes": list(found.notes)}
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    count = counted(len(found.files), "file")
    box.terminal.say(f"Wrote {count} of revision {number} to {args.files}. Not in the ledger, so not kept: {LOST}.")
    where = f"--fleet {quote(args.files)} --hub {quote(session.found_target(args, box))}"
    box.terminal.remark(f"To compare them with what is applied: holdfast plan {where}")
    return 0


def _check_directory(path: str, fleet: str) -> None:
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise Conflict(
            f"{path} exists and is not an empty directory; nothing is overwritten",
            remedy="choose another name, or an empty directory: --files DIR",
            code="already_exists",
        )
    inside = os.path.relpath(os.path.realpath(path), os.path.realpath(fleet))
    if inside.partition("/")[0] != ".." and not inside.startswith("."):
        raise Invalid(
            f"{path} is inside the fleet directory, which must not have a second one in it",
            remedy="choose a directory elsewhere: --files DIR",
            code="usage",
        )


def _proven(hub: HubReader, applied: Applied, number: int) -> Link:
    """The link of that revision, which the verified head names as its ancestor."""
    links = hub.links(number, applied.head.number)
    wanted = applied.head.digest
    for link in reversed(links):
        if digest_of(link.header_bytes) != wanted:
            raise Corrupt(
                f"the hub's revision {link.header.number} is not the one that the applied revision follows",
                remedy="do not use it; run `holdfast hub check` on the hub's machine",
                code="chain_broken",
            )
        wanted = link.header.parent
    return links[0]


def _mistakes(found: Rendered, box: Toolbox) -> tuple[str, ...]:
    """A revision of an older release may have what this one refuses."""
    try:
        load(box.files.held(found.files))
    except HoldfastError as trouble:
        return (f"this release does not accept these files as they are: {trouble.message}",)
    return ()
