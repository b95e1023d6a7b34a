"""What is set where: the command line by flags, environment and fleet.toml; the hub by flags and by the revision."""

import os
from argparse import Namespace

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.cli import flags
from holdfast.cli.agent import agent_run
from holdfast.cli.fleet import hub_identity, session
from holdfast.cli.hub import hub_init, hub_run
from holdfast.cli.waiting.awaiter import Limits
from holdfast.cli.waiting.watching import limits_of
from holdfast.model.cadence import NORMAL
from holdfast.model.duration import milliseconds
from holdfast.model.fleet import Backups, FleetDocument, Settings, Timeouts
from holdfast.planning.kinds.every import documents
from tests.fleets.build import commit, mailbox, small_fleet
from tests.specs.declared.declared_fleets import BASE, FLEET, fleet_of, with_fleet

HUB = "https://hub.example.com:9555"
HUB_KEY = MemoryIdentityKey(b"hub".ljust(32)).line


def told(environ: dict[str, str], *words: str) -> Namespace:
    return flags.with_defaults(flags.parser_for("plan", "x", "").parse_args(list(words)), environ)


# ---- the command line


@pytest.mark.parametrize(
    ("words", "environ", "declared", "found"),
    [
        ((), {}, "", os.path.join(".", ".ledger")),
        ((), {"HOLDFAST_FLEET": "/f"}, "", "/f/.ledger"),
        ((), {}, HUB, HUB),
        ((), {"HOLDFAST_HUB": "https://env:9555"}, HUB, "https://env:9555"),
        (("--hub", "mine"), {"HOLDFAST_HUB": "https://env:9555"}, HUB, "mine"),
    ],
)
def test_which_hub_is_asked(words: tuple[str, ...], environ: dict[str, str], declared: str, found: str) -> None:
    """M-117 `[master] address`: flag, then $HOLDFAST_HUB, then [fleet] hub, then the ledger beside the files."""
    assert session.chosen_target(told(environ, *words), declared) == found


def test_where_the_services_and_the_credentials_come_from() -> None:
    """M-117 `[services] dir`, `[auth] token_path`: the fleet directory and the operator's key, each a flag with a
    variable behind it; what is remembered between commands lies in the caller's own state directory."""
    environ = {"HOLDFAST_FLEET": "/f", "HOLDFAST_KEY": "/k", "HOME": "/home/a"}
    assert (told(environ).fleet, told(environ).key) == ("/f", "/k")
    assert (told(environ, "--fleet", "g", "--key", "l").fleet, told(environ, "--key", "l").key) == ("g", "l")
    assert (told({}).fleet, told({}).key) == (".", None)
    assert hub_identity.state_dir(environ) == "/home/a/.local/state/holdfast"
    assert hub_identity.state_dir({"XDG_STATE_HOME": "/s", "HOME": "/home/a"}) == "/s/holdfast"


def test_whom_the_command_line_believes() -> None:
    """M-117 `[mcias] server_url`: no identity service is configured; the hub's key is, and an address list of nodes is
    not needed, for nodes are asked through the hub."""
    files = {"/f/fleet.toml": f'[fleet]\nname = "a"\nhub_key = "{HUB_KEY}"\n'.encode()}
    assert hub_identity.of("/f", MemoryDisk(files), {}).pin == HUB_KEY
    other = MemoryIdentityKey(b"other".ljust(32)).line
    assert hub_identity.of("/f", MemoryDisk(files), {"HOLDFAST_HUB_KEY": other}).pin == other


# ---- the hub


def test_the_hub_listens_on_its_port_and_keeps_its_state_in_its_place() -> None:
    """M-64 `server.grpc_addr`, `database.path`; O-17: both are facts of the process."""
    parser = flags.parser_for("hub run", "x", "")
    hub_run.declare(parser)
    args = parser.parse_args([])
    assert hub_run.address(args.listen) == ("127.0.0.1", 9555)
    assert (args.state_dir or hub_init.STATE_DIR) == "/var/lib/holdfast/hub"
    parser = flags.parser_for("agent run", "x", "")
    agent_run.declare(parser)
    args = parser.parse_args([])
    assert (args.listen, args.state_dir, args.data_dir) == (None, "/var/lib/holdfast/agent", "/srv")


def test_timeouts_and_backups_have_the_defaults_of_the_table() -> None:
    """M-64: 5m, 30s, 5s, 2m, 10m; 24h and 7; a probe is given as long as a health check."""
    assert msgspec.structs.asdict(Timeouts()) == {
        "deploy": "5m", "edge_route": "30s", "health_check": "5s", "undeploy": "2m", "snapshot": "10m",
    }  # fmt: skip
    assert (Backups().interval, Backups().retain) == ("24h", 7)
    assert (Settings("a").nodes_max, Settings("a").public_domains) == (200, ())
    assert milliseconds(Timeouts().health_check) == NORMAL.probe_s * 1000


def test_what_fleet_toml_says_about_timeouts_is_signed_and_reaches_every_node() -> None:
    """M-64: `[timeouts]` is part of the `fleet` resource, whose digest is in every manifest."""
    fleet = fleet_of(with_fleet(FLEET + '\n[timeouts]\ndeploy = "7m"\nundeploy = "90s"\n'))
    document = msgspec.json.decode(documents(fleet)["fleet"], type=FleetDocument)
    assert document.timeouts == Timeouts(deploy="7m", undeploy="90s")
    assert documents(fleet_of(BASE))["fleet"] != documents(fleet)["fleet"]


def test_a_command_waits_as_long_as_the_timeouts_of_the_applied_fleet_allow() -> None:
    hub = mailbox()
    fleet = small_fleet()
    commit(hub, replace(fleet, timeouts=Timeouts(deploy="7s", undeploy="8s", edge_route="9s")))
    applied = hub.applied()
    assert applied is not None and limits_of(applied) == Limits(7, 8, 9)
