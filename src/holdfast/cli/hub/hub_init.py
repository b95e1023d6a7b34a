"""`holdfast hub init`: create an empty ledger pinned to one fleet, and the hub's own key."""

import re
from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Invalid
from holdfast.hub.ledger import reading
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.ids import DIGEST_PATTERN
from holdfast.model.record import Pin
from holdfast.ports.ledger_store import LedgerStore, Transaction

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
    hub_key = box.keys.hub(state_dir)
    box.keys.name_hub(state_dir, args.name)
    store = box.ledgers.store(state_dir, create=True)
    try:
        is_new = not _is_pinned(store, state_dir, args.trust)
        if is_new:
            pin = canonical.encode(Pin(keys.FORMAT, args.trust))
            store.commit(Transaction(expect={keys.PIN: 0}, put={keys.PIN: pin}))
    finally:
        store.close()
    if args.json:
        made = {"state_dir": state_dir, "fleet": args.trust, "hub_key": hub_key}
        box.terminal.say(msgspec.json.encode(made).decode())
    else:
        what = "Created an empty ledger" if is_new else "The ledger already exists"
        box.terminal.say(f"{what} in {state_dir}, pinned to fleet {args.trust[:12]}…")
        box.terminal.say(f'The hub\'s key, for [fleet] in fleet.toml:\n  hub_key = "{hub_key}"')
        box.terminal.say(f"Next: holdfast hub run --state-dir {state_dir}")
    return 0


def _is_pinned(store: LedgerStore, state_dir: str, fleet: str) -> bool:
    """False for a fresh ledger; one of another fleet is refused."""
    pinned = reading.pin(store)
    if pinned is None and store.get(keys.HEAD) is None:
        return False
    if pinned is not None and pinned.fleet == fleet:
        return True
    whose = f"of fleet {pinned.fleet[:12]}…" if pinned is not None else "that was not made by hub init"
    raise Conflict(
        f"{state_dir} already holds a ledger {whose}", remedy="`holdfast hub run` serves it", code="already_exists"
    )
