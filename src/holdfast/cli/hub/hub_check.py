"""`holdfast hub check`: verify a ledger offline, from the first revision to the last content."""

from argparse import Namespace
from typing import Any

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.hub import show_finding
from holdfast.cli.hub.hub_init import STATE_DIR, declare_state_dir
from holdfast.cli.sizes import counted
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from holdfast.errors import Corrupt, HoldfastError
from holdfast.hub.ledger.ledger_check import Verdict, examine
from holdfast.hub.ledger.recoveries import sweep
from holdfast.ledger.boot_findings import ROWS, as_refusal, from_error

DETAILS = """\
Takes no lock and writes nothing, except with --sweep, which completes a commit that was interrupted. Verifies the hash
chain, every signature with grade and threshold, every manifest, every content, and the high-water mark. Exit 0: no
problem found; 7: something is wrong. Each finding has its own code and remedy. The hub's public key is printed too, in
the form of [fleet] hub_key in fleet.toml.
--hub DIR also names the ledger, as in other commands.

examples:
  holdfast hub check --state-dir /var/lib/holdfast/hub
  holdfast hub check --state-dir .ledger --json
  holdfast hub check --sweep --state-dir .ledger
"""


def declare(parser: Parser) -> None:
    declare_state_dir(parser)
    parser.add_argument("--sweep", action="store_true", help="complete commits that were interrupted")


def run(args: Namespace, box: Toolbox) -> int:
    ledger = args.hub if args.hub and "://" not in args.hub else None  # $HOLDFAST_HUB may name a running hub
    state_dir = args.state_dir or ledger or STATE_DIR
    if args.sweep:
        _sweep(state_dir, box)
    verdict = _examine(state_dir, box)
    hub_key = _hub_key(state_dir, box)
    if args.json:
        box.terminal.say_raw(msgspec.json.encode(_document(verdict, box.terminal) | {"hub_key": hub_key}).decode())
        return 0 if verdict.sound else Corrupt.exit_code
    for finding in verdict.findings:
        box.terminal.say(show_finding.text(finding, box.terminal))
    for note in verdict.notes:
        box.terminal.say(f"note: {note}")
    if hub_key:
        box.terminal.say(f'hub_key = "{hub_key}"')
    if verdict.sound:
        box.terminal.say(
            f"sound: {counted(verdict.revisions, 'revision')}, {counted(verdict.signatures, 'signature')}, "
            f"{counted(verdict.contents, 'content')}"
        )
    return 0 if verdict.sound else Corrupt.exit_code


def _examine(state_dir: str, box: Toolbox) -> Verdict:
    try:
        store = box.ledgers.reader(state_dir)
    except HoldfastError as trouble:
        if trouble.code not in ROWS:
            raise
        return Verdict((from_error(trouble),), 0, 0, 0)
    try:
        return examine(store, box.ledgers.high_water(state_dir))
    finally:
        store.close()


def _hub_key(state_dir: str, box: Toolbox) -> str:
    """An error here is only a warning, so that it does not hide the result of the check."""
    try:
        return box.keys.known_hub(state_dir) or ""
    except HoldfastError as trouble:
        box.terminal.warn(f"{trouble.message}; {trouble.remedy}")
        return ""


def _sweep(state_dir: str, box: Toolbox) -> None:
    try:
        store = box.ledgers.store(state_dir, create=False)
    except HoldfastError as trouble:
        raise as_refusal(trouble) from trouble
    try:
        for line in sweep(store):
            box.terminal.remark(f"swept: {line}")
    finally:
        store.close()


def _document(verdict: Verdict, terminal: Terminal) -> dict[str, Any]:
    return {
        "sound": verdict.sound,
        "revisions": verdict.revisions,
        "signatures": verdict.signatures,
        "contents": verdict.contents,
        "findings": show_finding.documents(verdict.findings, terminal),
        "notes": list(verdict.notes),
    }
