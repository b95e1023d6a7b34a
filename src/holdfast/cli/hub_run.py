"""`holdfast hub run`: serve the applied revision, and only that."""

from argparse import Namespace

from holdfast.cli import show_finding
from holdfast.cli.flags import Parser
from holdfast.cli.hub_init import STATE_DIR, declare_state_dir
from holdfast.cli.toolbox import Toolbox
from holdfast.errors import Invalid
from holdfast.hub.legacy import one_source

DETAILS = """\
Boots from the ledger alone. Damage that concerns everything refuses with a code and a remedy (exit 7) and opens no
port; damage to one resource quarantines exactly that resource and is shown in status, or refuses too with --strict.
A lock held by somebody else never blocks the boot. --config serves a hand-written fleet directory, named by its
fleet.toml, instead of a ledger: one source or the other, never both.

Requests are not authenticated yet, therefore only a loopback address is accepted; revisions are signed all the same.

examples:
  holdfast hub run --state-dir /var/lib/holdfast/hub --listen 127.0.0.1:9555
  holdfast hub run --config legacy/fleet.toml
"""


def declare(parser: Parser) -> None:
    declare_state_dir(parser)
    parser.add_argument("--listen", metavar="ADDRESS:PORT", default="127.0.0.1:9555", help="default 127.0.0.1:9555")
    parser.add_argument("--strict", action="store_true", help="refuse to boot on any damaged resource")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="serve a hand-written fleet directory, named by its fleet.toml, read-only, instead of a ledger",
    )


def run(args: Namespace, box: Toolbox) -> int:
    one_source(args.config, args.state_dir)
    host, port = address(args.listen)
    if args.config is not None:
        hub = box.legacy_hub(args.config)
    else:
        hub = box.booted_hub(args.state_dir or STATE_DIR, args.strict)
    for finding in hub.status().findings:
        box.terminal.warn(show_finding.line(finding))
    box.serve(hub, host, port, lambda chosen: box.terminal.remark(f"serving on http://{url_host(host)}:{chosen}"))
    return 0


def address(listen: str) -> tuple[str, int]:
    """127.0.0.1:9555, [::1]:9555 or localhost:0."""
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise Invalid(f"{listen!r} is not ADDRESS:PORT", remedy="write it like --listen 127.0.0.1:9555")
    return host, int(port)


def url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
