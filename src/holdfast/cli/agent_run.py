"""`holdfast agent run`: the agent in the foreground, until it is told to stop."""

from argparse import Namespace

import msgspec
from msgspec.structs import replace

from holdfast.agent.membership import Membership
from holdfast.cli import agent_join, agent_state
from holdfast.cli.agent_home import Running
from holdfast.cli.flags import Parser
from holdfast.cli.hub_run import address
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict
from holdfast.model.invite import decode_token

DETAILS = """\
Works from what it accepted, hub or no hub. --url and --proxy assert what the token and the revision say, and end with
an error that names both values when they differ; they decide nothing. Events go to stderr, one JSON object a line.
SIGTERM ends it within five seconds; what is under way is journaled and goes on with the next start.

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
        help="where agent-NODE.json says who runs and where it listens; default /run/holdfast",
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        help='serve the node\'s own API there, always; default: on its address, port 9444, if link = "dial" or '
        'direct = "on"',
    )
    parser.add_argument("--url", metavar="URL", help="the hub this node must belong to")
    parser.add_argument("--token", metavar="TOKEN", help="join first, if this machine is no node yet; - reads stdin")
    parser.add_argument("--token-file", metavar="FILE", help="the same, read from this file; - reads stdin")
    parser.add_argument("--address", metavar="ADDRESS", default="", help="where others reach this node")
    parser.add_argument(
        "--podman-socket", metavar="PATH", help="use this podman service; default: one is started when it is needed"
    )
    parser.add_argument(
        "--registry-auth",
        metavar="FILE",
        action="append",
        help="credentials of registries as `podman login --authfile FILE` writes them; may be given again",
    )
    parser.add_argument("--proxy", action="store_true", help="this node must have the role edge")


def run(args: Namespace, box: Toolbox) -> int:
    known = agent_state.read(args.state_dir, box)
    if (args.token or args.token_file) and (known is None or not known.joined):
        text = agent_join.token_text(args.token, args.token_file, box)
        if args.token not in (None, "-") and not args.json:
            warning = {"event": "warning", "message": agent_join.SEEN, "remedy": "holdfast agent run --token-file FILE"}
            box.terminal.complain(msgspec.json.encode(warning).decode())
        agent_join.prepare(decode_token(text), args.state_dir, args.address, None, box)
    member = agent_state.required(args.state_dir, box)
    if args.address:
        member = replace(member, address=args.address)
    _check_url(args.url, member)
    host, port = address(args.listen) if args.listen else ("", 0)
    role = "edge" if args.proxy else ""
    auth = tuple(args.registry_auth or ())
    running = Running(args.data_dir, args.run_dir, host, port, role, args.podman_socket or "", auth)
    return box.agent(args.state_dir).run(member, running)


def _check_url(url: str | None, member: Membership) -> None:
    if url is not None and url.rstrip("/") != member.hub.rstrip("/"):
        raise Conflict(
            f"--url says {url}, this node joined {member.hub}",
            remedy="leave --url out, or join the other hub's fleet with a --state-dir of its own",
            code="failed_precondition",
        )
