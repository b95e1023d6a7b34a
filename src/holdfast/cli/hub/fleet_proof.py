"""Which fleet a command without a hub is about: fleet.lock in --fleet, or --trust, says it."""

import re
from argparse import Namespace

from holdfast.cli.flags import Parser
from holdfast.cli.fleet import session
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model.ids import DIGEST_PATTERN, Digest


def declare(parser: Parser) -> None:
    parser.add_argument("--trust", metavar="FINGERPRINT", help="fleet id, if there is no fleet.lock in --fleet")


def fleet(args: Namespace, box: Toolbox, command: str) -> Digest:
    """`command`: the one that runs, for the remedy."""
    if args.trust is not None:
        if not re.match(DIGEST_PATTERN, args.trust):
            raise Invalid(
                f"{args.trust!r} is not a fleet id",
                remedy="`holdfast validate` prints the fleet id: 64 hexadecimal digits",
                code="invalid_argument",
            )
        return Digest(args.trust)
    lock = session.heads(args, box).lock()
    if lock is None:
        raise Invalid(
            f"the fleet of this hub is not known here: there is no fleet.lock in {args.fleet}",
            remedy=f"{command} --fleet DIR; or --trust FINGERPRINT instead of --fleet",
            code="fleet_unproven",
        )
    return Digest(lock.fleet)
