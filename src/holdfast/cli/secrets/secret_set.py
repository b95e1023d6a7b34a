"""`holdfast secret set NAME`: seal a new secret."""

import os
from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser, repeated
from holdfast.cli.secrets import secret_sealing, secret_value, secret_view
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict

DETAILS = """\
Writes secrets/NAME.age, sealed (age) to every operator's recipient and to the keys of the nodes where services that use
it run or may run. Only these can open it; the hub cannot. Commit the file with the rest of the directory.

The services that use it are named inside the seal: a node gives the value to no other service, whatever a revision
says. So is an alert target of nodes, as alerts.NAME, and what a node provides, as provides.NODE.TYPE. --for names them
instead, and then exactly these may have it.

The value comes from a pipe (one final line break is dropped), from a hidden prompt, from --file or from --generate. It
is never given on the command line, where other users could see it.

examples:
  holdfast secret set db-password --generate
  pass show work/api-key | holdfast secret set api-key
  holdfast secret set tls --file server.pem
  holdfast secret set db-password --generate --for service.db --for service.web
  echo ntfys://ntfy.example.com/fleet | holdfast secret set phone-url --for alerts.phone
"""


def declare(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name that components use")
    secret_sealing.declare_addresses(parser)
    secret_value.declare(parser)


def run(args: Namespace, box: Toolbox) -> int:
    name = secret_view.checked_name(args.name)
    view = secret_view.look(args, box)
    path = secret_view.file_of(view, name)
    if name in view.fleet.secrets or os.path.lexists(path):
        raise Conflict(
            f"{path} already exists",
            remedy=f"set a new value: holdfast secret rotate {name}{repeated(args)}",
            code="already_exists",
        )
    goal = secret_sealing.purpose(view, name, args.addresses)
    to = secret_sealing.recipients(view, goal)
    secret_sealing.write(view, goal, secret_value.read(args, box, name), to, box)
    used_by = secret_view.users(view, name)
    if args.json:
        document = secret_sealing.document(goal, path, to, used_by)
        box.terminal.say_raw(msgspec.json.encode(document).decode())
    else:
        box.terminal.say(f"Sealed {path} to {secret_sealing.whom(goal, to)}.")
    secret_sealing.tell(view, goal, to, used_by, box)
    return 0
