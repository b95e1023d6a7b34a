"""`holdfast agent run`: run the agent in the foreground until it gets a signal."""

import os
from argparse import Namespace

import msgspec
from msgspec.structs import replace

from holdfast.agent.membership import Membership
from holdfast.cli.agent import agent_join, agent_state
from holdfast.cli.agent.agent_home import Running
from holdfast.cli.flags import Parser
from holdfast.cli.hub.hub_run import address, network
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict
from holdfast.model.invite import decode_token

DETAILS = """\
The agent works from the revision it has accepted, with or without a hub. --url and --proxy only check: if they differ
from the token or the revision, the agent ends with an error that names both values. Events go to stderr, one JSON
object a line. SIGTERM ends the agent within five seconds; operations in progress are in the journal and continue with
the next start. A node that lost its key does not start: the fleet knows no other one.

examples:
  holdfast agent run
  holdfast agent run --url https://hub.example:9555 --token-file /run/token
  holdfast agent run --state-dir /var/lib/holdfast/agent --data-dir /srv --listen 100.64.0.2:9444
"""


def declare(parser: Parser) -> None:
    agent_state.declare_state_dir(parser)
    parser.add_argument(
        "--data-dir", metavar="DIR", default=agent_state.DATA_DIR, help="data of services; default /srv"
    )
    parser.add_argument(
        "--run-dir",
        metavar="DIR",
        default="/run/holdfast",
        help="directory for agent-NODE.json (process and listening address); default /run/holdfast",
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        help='always serve the node\'s own API there; default: its address, port 9444, if link = "dial" or '
        'direct = "on"',
    )
    parser.add_argument("--url", metavar="URL", help="end with an error unless this node joined this hub")
    parser.add_argument("--token", metavar="TOKEN", help="join first if this machine is not a node yet; - reads stdin")
    parser.add_argument("--token-file", metavar="FILE", help="the same, read from this file; - reads stdin")
    parser.add_argument("--address", metavar="ADDRESS", default="", help="address at which other nodes reach this node")
    parser.add_argument(
        "--podman-socket", metavar="PATH", help="use this podman service; default: the agent starts one when needed"
    )
    parser.add_argument(
        "--registry-auth",
        metavar="FILE",
        action="append",
        help="credentials of registries as `podman login --authfile FILE` writes them; may be repeated",
    )
    parser.add_argument(
        "--alert-network",
        metavar="NETWORK",
        action="append",
        default=[],
        help="alerts of this node may go to this network, although it is loopback, link-local or the overlay "
        "(repeatable)",
    )
    parser.add_argument("--proxy", action="store_true", help="end with an error unless this node has the role edge")


def run(args: Namespace, box: Toolbox) -> int:
    known = agent_state.read(args.state_dir, box)
    if (args.token or args.token_file) and (known is None or not known.joined):
        text = agent_join.token_text(args.token, args.token_file, box)
        if args.token not in (None, "-") and not args.json:
            warning = {"event": "warning", "message": agent_join.SEEN, "remedy": "holdfast agent run --token-file FILE"}
            box.terminal.complain(msgspec.json.encode(warning).decode())
        agent_join.prepare(decode_token(text), args.state_dir, args.address, None, box)
    member, home = agent_state.required(args.state_dir, box), box.agents.at(args.state_dir)
    agent_join.existing_key(member, args.state_dir, home)
    if args.address:
        member = replace(member, address=args.address)
    _check_url(args.url, member)
    host, port = address(args.listen) if args.listen else ("", 0)
    role = "edge" if args.proxy else ""
    # Absolute: podman and containers are told these paths, and have another working directory (N06).
    data, run_dir = os.path.abspath(args.data_dir), os.path.abspath(args.run_dir)
    socket = os.path.abspath(args.podman_socket) if args.podman_socket else ""
    auth = tuple(os.path.abspath(path) for path in args.registry_auth or ())
    allowed = tuple(network(text) for text in args.alert_network)
    return home.run(member, Running(data, run_dir, host, port, role, socket, auth, allowed))


def _check_url(url: str | None, member: Membership) -> None:
    if url is not None and url.rstrip("/") != member.hub.rstrip("/"):
        raise Conflict(
            f"--url is {url}, but this node joined {member.hub}",
            remedy="omit --url, or join the other hub's fleet with a separate --state-dir",
            code="failed_precondition",
        )
