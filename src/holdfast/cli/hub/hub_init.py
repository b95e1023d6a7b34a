"""`holdfast hub init`: create an empty ledger pinned to one fleet, and the hub's own key."""

import re
from argparse import Namespace
from shlex import quote

import msgspec

from holdfast.cli import state_directory
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, HoldfastError, Invalid
from holdfast.hub.ledger import reading
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.ids import DIGEST_PATTERN
from holdfast.model.record import Pin
from holdfast.ports.ledger_store import Transaction

DETAILS = """\
FINGERPRINT is the fleet id, the digest of the fleet's first trust; `holdfast init` and `holdfast validate` print it.
The hub refuses a first revision of any other fleet.

The command also creates the hub's key (hub.key in the state directory, never sent anywhere) and prints its public half.
Write that into fleet.toml as [fleet] hub_key, so that no other machine can pose as this hub. --name adds hostnames to
the hub's certificate; the addresses it listens on are always in it. Running the command again for the same fleet does
not change the ledger and prints the key again.

examples:
  holdfast hub init --trust 3f1c… --state-dir /var/lib/holdfast/hub
  holdfast hub init --trust 3f1c… --name hub.example.com --json
"""


def declare(parser: Parser) -> None:
    parser.add_argument(
        "--trust", metavar="FINGERPRINT", required=True, help="fleet id: the digest of the fleet's first trust"
    )
    declare_state_dir(parser)
    declare_names(parser)


def declare_names(parser: Parser) -> None:
    parser.add_argument(
        "--name", metavar="HOST", action="append", default=[], help="a hostname of the hub; may be repeated"
    )


def declare_state_dir(parser: Parser) -> None:
    parser.add_argument(
        "--state-dir", metavar="DIR", default=None, help="the hub's state (default: /var/lib/holdfast/hub)"
    )


STATE_DIR = "/var/lib/holdfast/hub"


def run(args: Namespace, box: Toolbox) -> int:
    state_dir = args.state_dir or STATE_DIR
    if not re.match(DIGEST_PATTERN, args.trust):
        raise Invalid(
            f"{args.trust!r} is not a fleet id",
            remedy="`holdfast validate` prints the fleet id: 64 hexadecimal digits",
            code="invalid_argument",
        )
    is_new = not _is_pinned(state_dir, args.trust, box)  # first: a refused command changes neither key nor names
    state_directory.make(state_dir, box.disk)
    hub_key = box.keys.hub(state_dir)
    box.keys.name_hub(state_dir, args.name)
    if is_new:
        store = box.ledgers.store(state_dir, create=True)
        try:
            pin = canonical.encode(Pin(keys.FORMAT, args.trust))
            store.commit(Transaction(expect={keys.PIN: 0}, put={keys.PIN: pin}))
        finally:
            store.close()
    if args.json:
        made = {"state_dir": state_dir, "fleet": args.trust, "hub_key": hub_key}
        box.terminal.say_raw(msgspec.json.encode(made).decode())
    else:
        what = "Created an empty ledger" if is_new else "The ledger already exists"
        box.terminal.say(f"{what} in {state_dir}, pinned to fleet {args.trust[:12]}…")
        box.terminal.say("The hub's key, for [fleet] in fleet.toml:")
        box.terminal.say(f'  hub_key = "{hub_key}"')
        box.terminal.say(f"Next: holdfast hub run --state-dir {quote(state_dir)}")
    return 0


def _is_pinned(state_dir: str, fleet: str, box: Toolbox) -> bool:
    """False for a fresh ledger, or none; one of another fleet is refused."""
    try:
        store = box.ledgers.reader(state_dir)
    except HoldfastError as trouble:
        if trouble.code != "ledger_missing":
            raise
        return False
    try:
        pinned, is_empty = reading.pin(store), store.get(keys.HEAD) is None
    finally:
        store.close()
    if pinned is None and is_empty:
        return False
    if pinned is not None and pinned.fleet == fleet:
        return True
    whose = f"of fleet {pinned.fleet[:12]}…" if pinned is not None else "that was not made by hub init"
    raise Conflict(
        f"{state_dir} already holds a ledger {whose}", remedy="`holdfast hub run` serves it", code="already_exists"
    )
