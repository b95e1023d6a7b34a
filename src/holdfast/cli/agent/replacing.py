"""`holdfast agent join --replace NODE` with an operator's key: invite, join and restore, on the new machine."""

from argparse import Namespace
from shlex import quote

from holdfast.cli.agent import agent_join, agent_state
from holdfast.cli.moves import replaced_node
from holdfast.cli.nodes import fleet_view, node_invite
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, HoldfastError, SignatureRequired, Unreachable
from holdfast.model.duration import aged

AGENT_S, LOOK_S = 600.0, 1.0
NO_SIGNER = ("no_key", "unknown_signer")  # codes


def run(args: Namespace, box: Toolbox) -> int:
    """Repeating the command is safe: a machine that has joined goes on with the services."""
    node = args.replace
    known = agent_state.read(args.state_dir, box)
    if known is None or not (known.joined and known.restores and known.node == node):
        _join(node, args, box)
    if not args.json:
        box.terminal.say(f"This machine is now node {node}.")
        box.terminal.remark(
            f"Start its agent, if it does not run: holdfast agent run --state-dir {quote(args.state_dir)}"
        )
    _wait(node, args, box)
    more = {"all": True, "source": node, "to": node, "force": False, "detach": False, "adopt": False, "message": ""}
    return replaced_node.run(Namespace(**{**vars(args), **more}), box)


def _join(node: str, args: Namespace, box: Toolbox) -> None:
    view = fleet_view.look(args, box)
    _refuse_alive(node, view, args)
    asked = Namespace(**{**vars(args), "name": node, "replace": True, "expires": "15m", "output": None, "source": None})
    box.terminal.confirm(f"Let this machine take the place of {node}?", "not joined")
    try:
        token = node_invite.token(asked, box)
    except HoldfastError as trouble:
        if trouble.code in NO_SIGNER or isinstance(trouble, SignatureRequired):
            trouble.remedy = _elsewhere(node)
        raise
    agent_join.joined(token, args, box)


def _elsewhere(node: str) -> str:
    """Where the key is."""
    return (
        f"where an operator's key is: holdfast node invite {node} --replace; with its token, on this machine: holdfast "
        f"agent join --replace {node} TOKEN"
    )


def _refuse_alive(node: str, view: FleetView, args: Namespace) -> None:
    """Its pulse is fresh: two machines would run the same services."""
    one = fleet_view.node(view, node, args)
    if one.status == "healthy":
        raise Conflict(
            f"{node} is alive (it reported {aged(one.age_s)} ago), so no other machine takes its place",
            remedy="switch the old machine off first; or move its services away: `holdfast migrate --help` shows how",
            code="node_alive",
        )


def _wait(node: str, args: Namespace, box: Toolbox) -> None:
    """For the agent of this machine."""
    until_s = box.clock.monotonic_s() + AGENT_S
    while replaced_node.is_silent(node, fleet_view.look(args, box)):
        if box.clock.monotonic_s() >= until_s:
            raise Unreachable(
                f"the agent of this machine has not reported for {AGENT_S / 60:.0f} min",
                remedy=f"start it: holdfast agent run --state-dir {quote(args.state_dir)}; then: holdfast migrate "
                f"--all --from {node} --to {node}",
                code="not_heard",
            )
        box.clock.sleep(LOOK_S)
