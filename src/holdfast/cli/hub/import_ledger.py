"""`holdfast import ledger`: rebuild a lost ledger from the signed revisions that nodes hold."""

from argparse import Namespace
from shlex import quote

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.hub.hub_init import STATE_DIR, declare_state_dir
from holdfast.cli.sizes import counted
from holdfast.cli.tools import Toolbox
from holdfast.declared.load import load
from holdfast.errors import HoldfastError
from holdfast.hub.ledger.restore import Restored, restore
from holdfast.ledger.boot_findings import as_refusal
from holdfast.ledger.rebuild import Spare
from holdfast.model.applied import EMPTY_TABLE
from holdfast.planning.kinds.every import documents, holders
from holdfast.planning.table import draft

DETAILS = """\
For a hub whose disk is lost and has no backup (`holdfast hub backup`). Run on the hub's machine:

  1. holdfast hub init --trust FINGERPRINT    the fleet id; first put the old hub.key into the state directory:
                                              nodes do not talk to a hub with another key
  2. holdfast hub run                         at the old address; nodes send what they hold automatically
  3. holdfast import ledger --fleet DIR       repeat until nothing is missing
  4. restart the hub; holdfast plan           shows what the directory has that was not applied

For a hub that was restored from an old file (`holdfast hub restore`) steps 3 and 4 are enough: while it runs, nodes
send the revisions that it lost, and this command fills them in.

The chain must begin with revision 1 and have every signature, and the rebuilt table must have the digest that operators
signed. Otherwise nothing is written, the error names what is missing, and the exit code is 7. The fleet directory
provides what no node holds: alerts, and nodes whose machines are lost. Nodes do not keep tables of older revisions, so
the history before the newest revision has none. Revocations and used invites were only in the lost ledger: revoke again
every key that you revoked since the newest revision, before you invite a machine.

examples:
  holdfast import ledger --state-dir /var/lib/holdfast/hub --fleet ~/myfleet
"""


def declare(parser: Parser) -> None:
    declare_state_dir(parser)


def run(args: Namespace, box: Toolbox) -> int:
    state_dir = args.state_dir or STATE_DIR
    spares = _spares(args, box)
    try:
        store = box.ledgers.store(state_dir, create=False)
    except HoldfastError as trouble:
        raise as_refusal(trouble) from trouble
    try:
        restored = restore(store, box.ledgers.high_water(state_dir), spares, box.clock.now_s())
    finally:
        store.close()
    return _say(restored, state_dir, args, box)


def _spares(args: Namespace, box: Toolbox) -> dict[str, Spare]:
    """What the directory would apply to an empty fleet; only parts whose digest was signed are used."""
    try:
        fleet = load(box.files.fleet(args.fleet))
        texts = documents(fleet)
        drafted = draft(fleet, texts, EMPTY_TABLE, {}, {}, 1)
    except HoldfastError as trouble:
        box.terminal.remark(f"Continuing without a fleet directory: {trouble.message}")
        return {}
    sealed = tuple(fleet.secrets.values())
    return {
        address: Spare(entry, texts[address], holders(address, drafted.table), sealed)
        for address, entry in drafted.table.entries.items()
    }


def _say(restored: Restored, state_dir: str, args: Namespace, box: Toolbox) -> int:
    if args.json:
        document = {
            "head": restored.head,
            "nodes": restored.nodes,
            "resources": restored.resources,
            "from_directory": list(restored.guessed),
            "before": restored.before,
            "not_restored": ["revocations", "spent invites"],
        }
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    box.terminal.say(
        f"Rebuilt revision {restored.head.number} ({restored.head.digest[:12]}…): "
        f"{counted(restored.resources, 'resource')}, {counted(restored.nodes, 'node')}."
    )
    if restored.before.number:
        filled = restored.head.number - restored.before.number
        box.terminal.say(
            f"The ledger was at revision {restored.before.number}: {counted(filled, 'revision')} came back."
        )
    if restored.guessed:
        box.terminal.say(f"Taken from the fleet directory: {', '.join(restored.guessed)}")
    since = "the restored file was made" if restored.before.number else "the last apply"
    box.terminal.say(
        "Lost: which keys were revoked and which invites were used. Revoke again every key that was revoked since "
        f"{since} (holdfast node revoke NAME), then: holdfast apply"
    )
    box.terminal.say(f"Next: restart the hub (holdfast hub run --state-dir {quote(state_dir)}), then holdfast plan")
    return 0
