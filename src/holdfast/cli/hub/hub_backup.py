"""`holdfast hub backup`: the state of a hub as one sealed file."""

import os
from argparse import Namespace
from datetime import UTC, datetime
from shlex import quote

import msgspec

from holdfast.cli.flags import Parser, positive
from holdfast.cli.hub.hub_init import STATE_DIR, declare_state_dir
from holdfast.cli.sizes import counted, size
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.hub.file.making import Made, made
from holdfast.ledger.boot_findings import as_refusal
from holdfast.model import hub_file
from holdfast.model.hub_file import About

DETAILS = """\
Run on the hub's machine, as its user; the hub may be running. The file has the ledger (revisions, enrolments,
revocations, tokens as hashes, reports with the receipts of nodes), the audit log, and the hub's key and certificate. It
has no backups of services and no requests of the last minute.

It is sealed to the age recipients of the operators of grade destroy in the applied revision: no machine can open it,
the hub neither. Keep it on another machine. `holdfast hub restore FILE` makes a hub of it; without Holdfast:
`age -d -i IDENTITY FILE | zstd -d | tar -x` (docs/reference/hub-file.md).

TARGET is a file that does not exist, or a directory; a directory keeps the newest --keep files of this fleet.
Exit 0: done; 5: nothing is applied, no operator can open it, or the file exists.

examples:
  holdfast hub backup --to /mnt/usb
  holdfast hub backup --to hub.age --state-dir /var/lib/holdfast/hub --json
"""


def declare(parser: Parser) -> None:
    declare_state_dir(parser)
    parser.add_argument("--to", metavar="TARGET", default=".", help="a file or a directory (default: .)")
    parser.add_argument(
        "--keep",
        metavar="N",
        type=positive,
        default=0,
        help="in a directory: remove all but the newest N (default: all stay)",
    )


def run(args: Namespace, box: Toolbox) -> int:
    state_dir = args.state_dir or STATE_DIR
    is_directory = os.path.isdir(args.to)
    if args.keep and not is_directory:
        raise Invalid("--keep needs a directory", remedy="give one: holdfast hub backup --to DIR --keep N")
    if not is_directory and os.path.lexists(args.to):
        raise Conflict(f"{args.to} exists", remedy="choose another file, or a directory", code="exists")

    def path(about: About) -> str:
        return os.path.join(args.to, hub_file.name(about, _stamp(about.made_s))) if is_directory else args.to

    try:
        whole = made(
            state_dir,
            path,
            files=box.files.hub(),
            reader=box.ledgers.reader,
            hub_key=box.keys.known_hub,
            sealer=box.keys.sealer(),
            now_s=box.clock.now_s(),
        )
    except HoldfastError as trouble:
        raise as_refusal(trouble) from trouble
    removed = _prune(args.to, whole, args.keep, box) if args.keep else []
    return _say(whole, removed, args, box)


def _stamp(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%dT%H%M%SZ")


def _prune(folder: str, whole: Made, keep: int, box: Toolbox) -> list[str]:
    """Older files of this fleet, by the time in their names. The new one stays, also if the clock was set back."""
    mine, new = f"hub-{whole.about.fleet[:12]}-", os.path.basename(whole.path)
    with os.scandir(folder) as found:
        files = [one.name for one in found if one.is_file(follow_symlinks=False) and one.name.startswith(mine)]
    others = sorted(name for name in files if hub_file.NAME.fullmatch(name) and name != new)
    old = others[: max(len(others) - (keep - 1), 0)]
    for name in old:
        box.disk.remove(os.path.join(folder, name))
    return old


def _say(whole: Made, removed: list[str], args: Namespace, box: Toolbox) -> int:
    about, path = whole.about, whole.path
    if args.json:
        body = {
            "file": os.path.abspath(path),
            "size_bytes": whole.size_bytes,
            "fleet": about.fleet,
            "head": about.head,
            "generation": about.generation,
            "operators": list(whole.operators),
            "removed": removed,
        }
        box.terminal.say_raw(msgspec.json.encode(body).decode())
        return 0
    box.terminal.say(f"{path}: revision {about.head.number}, {size(whole.size_bytes)}.")
    box.terminal.say(f"Sealed to {', '.join(whole.operators)}. Keep it on another machine than the hub's.")
    if removed:
        box.terminal.say(f"Removed {counted(len(removed), 'older file')}.")
    box.terminal.remark(f"To look into it: holdfast hub restore {quote(path)} --check")
    return 0
