"""Where the messages of the seed's wire contract went: the same facts, JSON over HTTPS and in signed files (C-03)."""

import ast
import io
from pathlib import Path

import pytest

from holdfast.agent.local_api import api
from holdfast.cli import main
from holdfast.cli.terminal import Terminal
from holdfast.cli.verbs import VERBS
from holdfast.errors import Invalid
from holdfast.hub.http import permissions
from holdfast.hub.http.routes import ROUTES, match
from holdfast.model.checkin import CheckIn, JoinAnswer, JoinRequest
from holdfast.model.fleet import Route, Service, Snapshot
from holdfast.model.node_view import NodeView
from holdfast.model.order import Order, OrderResult
from holdfast.model.report import ContainerState, Facts, Report
from holdfast.trust import orders
from holdfast.wiring import cli as wiring
from tests.fleets.build import START_S
from tests.fleets.desks import key_of
from tests.fleets.lives import pulse_of

ROOT = Path(__file__).parents[3]
HUB_ROOM = ROOT / "src" / "holdfast" / "hub"


def fields(kind: type) -> set[str]:
    return set(kind.__struct_fields__)  # type: ignore[attr-defined]


def refused(*words: str) -> str:
    """What the command line says to a verb it does not have; with its exit code checked."""
    said = io.StringIO()
    box = wiring.SystemToolbox(Terminal(said, said, said, environ_no_colour=True), {})
    assert main.run([*words, "--json"], box) == 2
    return said.getvalue()


def test_a_service_is_declared_in_the_fields_of_its_message() -> None:
    """M-43: ServiceSpec, RouteSpec, SnapshotConfig are what services/*.toml says; StepResult is what an order's result
    says: which one, whether it worked, and why not."""
    assert fields(Service) >= {"name", "active", "components", "tier", "node", "snapshot"}
    assert fields(Route) == {"name", "port", "mode", "hostname", "public", "protocol", "pass_headers"}
    assert fields(Snapshot) >= {"method", "exclude"}
    assert fields(OrderResult) >= {"id", "outcome", "code", "message"}


RPCS = {
    "Deploy": ("POST", "/v1/revisions", "commit"),
    "Undeploy": ("POST", "/v1/revisions", "commit"),
    "Sync": ("POST", "/v1/revisions", "commit"),
    "Status": ("GET", "/v1/applied", "read-applied"),
    "ListNodes": ("GET", "/v1/nodes", "read-nodes"),
    "Register": ("POST", "/v1/join", "join"),
    "Heartbeat": ("POST", "/v1/check-in", "check-in"),
}


@pytest.mark.parametrize("rpc", RPCS)
def test_every_call_of_the_master_that_is_built_has_its_route(rpc: str) -> None:
    """M-44: deploy, undeploy and sync are one signed commit."""
    method, path, operation = RPCS[rpc]
    assert match(method, path)[0].operation == operation


def test_what_was_said_in_those_calls_is_said() -> None:
    """M-44: NodeInfo, Register, Heartbeat and ServiceStatus, field by field; `ps` puts the last together."""
    assert fields(NodeView) >= {"name", "roles", "address", "status", "age_s", "report"} and "arch" in fields(Report)
    assert fields(JoinRequest) >= {"name", "roles", "address", "arch"} and "accepted" in fields(JoinAnswer)
    assert "node" in fields(CheckIn)
    assert fields(Facts) >= {"cpu_millicores", "memory_bytes", "disk_bytes", "containers"}
    assert fields(ContainerState) >= {"service", "status"}


def test_the_agent_is_upgraded_on_its_node_by_a_verb_that_is_not_built_yet() -> None:
    """M-32: a verb of the agent, never a deployment; until it is there, the words are refused."""
    assert not [verb for verb in VERBS if verb.startswith("agent upgrade")]
    assert "not_built" in refused("agent", "upgrade")


# ---- duties


DUTIES = {
    "accept commands": "commit",
    "keep the registry of nodes": "join",
    "hear how they are": "check-in",
    "carry signed orders": "order",
    "take an order back that waits": "cancel-order",
    "carry what an order opens, unread": "stream",
    "shut a node out": "revoke",
    "say how the fleet is": "read-nodes",
    "say how the hub is": "read-status",
    "store sealed backups": "write-backup",
    "delete backups that no kept one needs": "delete-backup",
    "pass sealed data of a move from one node to another": "hand-over",
    "give its own node a copy of itself that only operators can open": "copy-hub",
}


def test_the_hub_has_a_door_for_each_of_its_duties_and_none_for_acting() -> None:
    """M-59 as design.md §1 divides it: placement and hostnames are decided in the plan and judged again at commit
    (tests/specs/planning/test_succession.py). M-60: every other operation reads, makes tokens or mends contents."""
    offered = {route.operation for route in ROUTES}
    assert set(DUTIES.values()) <= offered
    rest = {name for name in offered - set(DUTIES.values()) if not name.startswith("read-")}
    assert rest == {"health", "describe", "mend", "salvage", "make-token", "revoke-token"}
    assert offered == set(permissions.ALLOWED)


def test_the_hub_has_no_hands() -> None:
    """M-60: it runs nothing, dials nobody by itself and knows no container runtime; what nodes say of containers it
    keeps as the bytes they signed."""
    hands = {"subprocess", "podman", "docker", "os.system", "multiprocessing", "pty", "urllib", "http"}
    touched = []
    for path in HUB_ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            touched += [f"{path.name}: {name}" for name in names if name.partition(".")[0] in hands]
            if isinstance(node, ast.Name | ast.Attribute):
                word = node.id if isinstance(node, ast.Name) else node.attr
                touched += (
                    [f"{path.name}: {word}"] if word in ("ContainerState", "ClientSession", "TCPConnector") else []
                )
    assert touched == []


def test_nothing_of_a_node_reaches_another_through_the_hub() -> None:
    """M-60, I-15, C-12: no relay between nodes but for the sealed data of a move, between the two nodes that the
    signed revision names (tests/specs/hub/test_move_access.py). What they may ask for is their own, at the other end
    of a stream is the operator who ordered it (tests/contracts/test_relay.py), and backups are those of services that
    the signed revision gives to the node (tests/scenarios/test_hub_backups.py). The file of the hub goes to the node of
    the hub only, sealed to operators (tests/contracts/test_hub_copy.py)."""
    of_nodes = {name for name, kinds in permissions.ALLOWED.items() if "node" in kinds and "anonymous" not in kinds}
    backups = {"read-backup", "write-backup", "delete-backup"}
    assert of_nodes - backups - {"hand-over", "copy-hub"} == {
        *("join", "check-in", "salvage", "stream", "read-head", "read-links", "read-own-content"),
    }


# ---- one program per host


def test_every_host_runs_the_same_agent_and_there_is_no_other_program() -> None:
    """F-03: the endpoints that every agent has; a provider has no other program, and answers only to declared pairs."""
    assert {path for _, path in api.ROUTES} >= {"/v1/status", "/v1/manifest", "/v1/holdings", "/v1/capabilities/"}
    assert {verb for verb in VERBS if verb.endswith(" run")} == {"hub run", "agent run", "schedule run"}
    units = {path.name for path in (ROOT / "deploy" / "systemd").glob("*.service")}
    assert units == {f"holdfast-{name}.service" for name in ("agent", "hub", "mounts", "proxy")}


def test_no_agent_has_a_way_to_another_agent_but_those_of_declared_moves_and_needs() -> None:
    """I-15, C-12: its room knows the port to its hub, that of moves, through which only objects of a move go to a node
    that the accepted revision names, that of needs, which goes to the providers that it names, and no other client.
    tests/scenarios/test_move_ways.py and test_needs.py have the calls of a run."""
    room = ROOT / "src" / "holdfast" / "agent"
    ways = {str(path.relative_to(room)) for path in room.rglob("*.py") if "ports.move_lines" in path.read_text()}
    assert ways == {"moves/ways/keeper.py", "moves/ways/ways.py"}
    calls = {str(path.relative_to(room)) for path in room.rglob("*.py") if "ports.agent_link" in path.read_text()}
    assert calls == {f"needs/{name}.py" for name in ("asking", "books", "declared", "telling")}
    for path in room.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                assert node.module not in ("holdfast.ports.hub_link", "aiohttp.client", "urllib.request"), path
        for word in ("ClientSession", "create_connection(", "open_connection(", ".connect("):
            assert word not in text, f"{path.name} speaks first: {word}"


# ---- orders say what, not how


def test_an_order_names_a_target_and_no_steps() -> None:
    """H-26: what is to become of what; design.md §1: by name, never by URL."""
    assert fields(Order) == {
        "format", "fleet", "id", "node", "target", "action", "arguments", "counter", "nonce",
        "not_before_s", "expires_s", "pulse", "after_restart",
    }  # fmt: skip
    id, pulse = "0" * 32, pulse_of("f" * 64, "w1", key_of("w1"), START_S)
    for target in ("https://evil.test/x", "data.web/../../etc", "data./srv/web", "rm -rf /srv", "data.", "node.w2"):
        with pytest.raises(Invalid):
            orders.draft("f" * 64, "w1", target, "purge", {}, 1, id, id, START_S, START_S + 60, pulse)
    with pytest.raises(Invalid):
        orders.draft("f" * 64, "w1", "data.web", "umount;rm", {}, 1, id, id, START_S, START_S + 60, pulse)
    orders.draft("f" * 64, "w1", "data.web", "purge", {}, 1, id, id, START_S, START_S + 60, pulse)


def test_who_connects_to_whom_is_written_down() -> None:
    """M-30: access lists are set up outside of Holdfast, from a page that names every connection there is."""
    page = (ROOT / "docs" / "reference" / "network.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")
    ]
    ways = {(row[0], row[2]) for row in rows[1:]}
    assert {("every node", "TCP 9555"), ("operators' machines", "TCP 9555"), ("hub", "TCP 9444")} <= ways
    assert [row[:2] for row in rows if "9445" in row[2]] == [
        ["the node that a service moves away from", "the node that it moves to, `address`, while it moves"]
    ], "the one line from node to node"
    about_the_fleet = [row for row in rows if "9444" in row[2] or "9555" in row[2]]
    consumers, providers = "nodes of services with `[[needs]]`", "nodes with the role `provider`, `address`"
    assert {row[0] for row in about_the_fleet} == {"operators' machines", "every node", "hub", consumers}
    lines = {(row[0], row[1]) for row in about_the_fleet if "node" in row[0]}
    assert lines == {("every node", "hub"), (consumers, providers)}, "no other node opens such a line to a node"
    assert 'link = "dial"' in page and "node → node on 9444" in page
