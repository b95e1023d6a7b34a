"""`holdfast hub run`: serve the applied revision and nothing else."""

from argparse import Namespace

from holdfast.cli.flags import Parser
from holdfast.cli.hub import show_finding
from holdfast.cli.hub.hub_init import STATE_DIR, declare_names, declare_state_dir
from holdfast.cli.tools import Serving, Toolbox
from holdfast.errors import Invalid
from holdfast.hub.ledger.legacy import one_source

DETAILS = """\
The hub starts from the ledger alone. If the whole ledger is damaged, the hub refuses to start with a code and a remedy
(exit 7) and opens no port. Damage to one resource quarantines only that resource, which `holdfast status` shows; with
--strict the hub refuses to start then too. The ledger's lock, which an apply holds for a moment, does not delay the
start. A ledger that this user may not read is not damage (exit 3); the error names the directory that is closed to it.
A state directory can have only one running hub; a second one is refused (exit 5). A hub whose hub.key differs
from [fleet] hub_key of the applied revision is refused too (exit 7). --config serves a hand-written fleet directory,
named by its fleet.toml, instead of a ledger.

The hub speaks TLS 1.3 only, with a certificate of its own key (90 days, renewed while it runs), and answers only
operators, nodes and holders of tokens; docs/reference/permissions.md lists who may do what. --alert-command is run for
every alert, in addition to [[alerts]] of the fleet, with the alert as JSON on its standard input. Alerts of the fleet
go to no loopback, link-local or overlay address, unless --alert-network names it: only this command line can.

examples:
  holdfast hub run --state-dir /var/lib/holdfast/hub --listen 0.0.0.0:9555 --name hub.example.com
  holdfast hub run --pace fast --alert-command 'logger -t holdfast'
  holdfast hub run --config legacy/fleet.toml
"""


def declare(parser: Parser) -> None:
    declare_state_dir(parser)
    parser.add_argument("--listen", metavar="ADDRESS:PORT", default="127.0.0.1:9555", help="default 127.0.0.1:9555")
    declare_names(parser)
    parser.add_argument(
        "--pace",
        choices=("normal", "fast"),
        default="normal",
        help="fast: nodes check in every second and are unhealthy after five, for labs (default: normal)",
    )
    parser.add_argument("--alert-command", metavar="CMD", default="", help="run this command for every alert")
    parser.add_argument(
        "--alert-network",
        metavar="NETWORK",
        action="append",
        default=[],
        help="alerts may go to this network, although it is loopback, link-local or the overlay (repeatable)",
    )
    parser.add_argument(
        "--hub-key",
        metavar="FILE",
        help="the hub's private key (default: hub.key in the state directory; with --config one for this run only)",
    )
    parser.add_argument("--strict", action="store_true", help="refuse to start if any resource is damaged")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="serve a hand-written fleet directory, named by its fleet.toml, read-only, instead of a ledger",
    )


def run(args: Namespace, box: Toolbox) -> int:
    one_source(args.config, args.state_dir)
    host, port = address(args.listen)
    state_dir = None if args.config is not None else args.state_dir or STATE_DIR
    if args.config is not None:
        hub = box.ledgers.legacy(args.config)
    else:
        hub = box.ledgers.booted(state_dir or STATE_DIR, args.strict)
    for finding in hub.status().findings:
        box.terminal.warn(show_finding.line(finding, box.terminal))
    serving = Serving(
        host,
        port,
        state_dir,
        tuple(args.name),
        args.pace == "fast",
        args.alert_command,
        args.hub_key,
        tuple(network(text) for text in args.alert_network),
    )

    def ready(chosen: int, hub_key: str) -> None:
        box.terminal.remark(f"serving on https://{url_host(host)}:{chosen}")
        box.terminal.remark(f"hub key: {hub_key}")

    box.hubs.serve(hub, serving, ready)
    return 0


def network(text: str) -> str:
    from ipaddress import ip_network

    try:
        return str(ip_network(text))
    except ValueError as trouble:
        raise Invalid(
            f"--alert-network {text} is not a network: {trouble}",
            remedy="write a network such as 192.0.2.0/24 or one address: --alert-network 100.64.0.1",
        ) from None


def address(listen: str) -> tuple[str, int]:
    """127.0.0.1:9555, [::1]:9555 or localhost:0."""
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise Invalid(f"{listen!r} is not ADDRESS:PORT", remedy="write it like --listen 127.0.0.1:9555")
    return host, int(port)


def url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
