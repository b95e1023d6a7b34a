"""`holdfast agent join`: make this machine a node of a fleet, with a token from an operator."""

import asyncio
import sys
from argparse import Namespace
from shlex import quote

import msgspec
from msgspec.structs import replace

from holdfast.agent import membership as members
from holdfast.agent.membership import Membership
from holdfast.cli import state_directory
from holdfast.cli.agent import agent_state
from holdfast.cli.agent.agent_home import AgentHome
from holdfast.cli.flags import Parser
from holdfast.cli.secrets import secret_opening
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Corrupt, Invalid, Unreachable
from holdfast.model import ssh_key
from holdfast.model.checkin import JoinAnswer, JoinRequest
from holdfast.model.invite import TOKEN_CHARS_MAX, JoinToken, decode_invite, decode_token
from holdfast.model.revision import NO_HEAD
from holdfast.ports.identity_key import IdentityKey

DETAILS = """\
The token is a secret until it is used: any machine that has it can join as this node. Other users can see a token on
the command line, so prefer - (standard input) or --token-file. The machine creates its own key, which never leaves it;
--host-key uses the SSH host key instead. Repeating the command is safe, also after a crash.

--replace NODE is for the machine that takes the place of a lost one. It starts no service of the node whose data is in
backups before that is restored. With a token (of `holdfast node invite NODE --replace`) an operator then runs `holdfast
migrate --all --from NODE --to NODE`. Without one it needs the fleet directory, your key (--key or ssh-agent, grade
destroy) and your age identity here: the command signs the invite, joins, waits for the agent, and restores every
service in order. A node that is alive is not replaced.

examples:
  holdfast node invite w1 | ssh w1 holdfast agent join -
  holdfast agent join --token-file /run/token --state-dir /var/lib/holdfast/agent
  holdfast agent join - --host-key /etc/ssh/ssh_host_ed25519_key
  holdfast agent join --replace w1 --fleet /root/fleet --yes
  holdfast node invite w1 --replace | ssh w1 holdfast agent join --replace w1 -
"""

SEEN = "every user of this machine can see the token on the command line"


def declare(parser: Parser) -> None:
    parser.add_argument("token", metavar="TOKEN", nargs="?", help="the output of `holdfast node invite`; - reads stdin")
    parser.add_argument("--token-file", metavar="FILE", help="read the token from this file; - reads stdin")
    parser.add_argument("--host-key", metavar="FILE", help="use this Ed25519 SSH host key as the node's key")
    parser.add_argument("--address", metavar="ADDRESS", default="", help="address at which other nodes reach this node")
    parser.add_argument("--replace", metavar="NODE", default="", help="take the place of this node's lost machine")
    secret_opening.declare(parser, "with --replace and no token: your age identity")
    agent_state.declare_state_dir(parser)


def run(args: Namespace, box: Toolbox) -> int:
    args.replace = args.replace.removeprefix("node.")
    if args.replace and args.token is None and args.token_file is None:
        from holdfast.cli.agent import replacing  # the rest of the command line

        return replacing.run(args, box)
    token = decode_token(token_text(args.token, args.token_file, box))
    _refuse_other(token, args.replace)
    if args.token not in (None, "-") and not args.json:  # with --json standard error is for JSON alone
        box.terminal.warn(f"{SEEN}; better: agent join -")
    member, key = joined(token, args, box)
    said = {
        "node": member.node,
        "fleet": member.fleet,
        "hub": member.hub,
        "key": key.line,
        "fingerprint": ssh_key.fingerprint(ssh_key.parse(key.line)),
    }
    if args.json:
        box.terminal.say_raw(msgspec.json.encode(said).decode())
    else:
        box.terminal.say(f"This machine is now node {member.node}; its key is {said['fingerprint']}")
        box.terminal.remark(f"Next: holdfast agent run --state-dir {quote(args.state_dir)}")
        if args.replace:
            there = f"holdfast migrate --all --from {member.node} --to {member.node}"
            box.terminal.remark(f"Then an operator restores its services: {there}")
    return 0


def joined(token: JoinToken, args: Namespace, box: Toolbox) -> tuple[Membership, IdentityKey]:
    member, key = prepare(token, args.state_dir, args.address, args.host_key, box, bool(args.replace))
    if not member.joined:
        asyncio.run(_ask(member, key, box.agents.at(args.state_dir)))
        member = replace(member, joined=True)
        agent_state.write(args.state_dir, member, box)
    return member, key


def _refuse_other(token: JoinToken, node: str) -> None:
    """--replace says what the token must be for."""
    invite = decode_invite(token.invite.invite)
    if node and (invite.node != node or not invite.replaces):
        what = f"is for {invite.node}" if invite.node != node else f"replaces no key of {node}"
        raise Invalid(
            f"--replace {node}, and the token {what}",
            remedy=f"make one that does: holdfast node invite {node} --replace",
            code="other_token",
        )


def token_text(word: str | None, path: str | None, box: Toolbox) -> str:
    if (word is None) == (path is None):
        raise Invalid(
            "give the token once: as an argument, as - for standard input, or with --token-file FILE",
            remedy="`holdfast node invite NAME` creates a token",
            code="usage",
        )
    if "-" in (word, path):
        return sys.stdin.read(TOKEN_CHARS_MAX + 1)
    if path is not None:
        content = box.disk.read(path, TOKEN_CHARS_MAX)
        if content is None:
            raise Invalid(f"there is no file {path}", remedy="check the path", code="no_token")
        return content.decode("ascii", "replace")
    assert word is not None
    return word


def prepare(
    token: JoinToken, state_dir: str, address: str, host_key: str | None, box: Toolbox, restores: bool = False
) -> tuple[Membership, IdentityKey]:
    """Write the key and the signed join request to disk before sending them, so that a retry sends the same bytes."""
    invite = decode_invite(token.invite.invite)
    home = box.agents.at(state_dir)
    state_directory.make(state_dir, box.disk)
    known = agent_state.read(state_dir, box)
    if known is not None and (known.fleet, known.node) != (invite.fleet, invite.node):
        raise Conflict(
            f"{state_dir} belongs to {known.node} of fleet {known.fleet[:12]}…, the token is for {invite.node} of "
            f"fleet {invite.fleet[:12]}…",
            remedy="give the new node its own --state-dir, or remove the old directory if that node is not needed",
            code="already_exists",
        )
    if known is not None and known.joined and members.same_invite(known.enrolment, token):
        if restores and not known.restores:
            known = _restoring(known, state_dir, home, box)
        return known, existing_key(known, state_dir, home)
    with home.lock():
        had_key = home.existing_key() is not None
        key = home.key(host_key)
        if known is not None and had_key and members.same_invite(known.enrolment, token):
            # Not joined yet, so the newest token decides where the hub is: the first one may have been damaged.
            member = replace(
                known,
                hub=token.hub,
                hub_key=token.hub_key,
                head=token.head,
                address=address or known.address,
                restores=restores or known.restores,
            )
        else:
            member = members.enrol(token, home.once(token.once), key, box.clock.now_s(), address, restores)
        agent_state.write(state_dir, member, box)
    return member, key


def _restoring(known: Membership, state_dir: str, home: AgentHome, box: Toolbox) -> Membership:
    """It joined without --replace. The flag counts for the first revision that the agent accepts."""
    if known.accepted != NO_HEAD:
        raise Conflict(
            f"this machine joined without --replace, and began the services of {known.node} with what it had",
            remedy=f"holdfast migrate --all --from {known.node} --to {known.node}; "
            "with --force it sets that data aside",
            code="already_begun",
        )
    with home.lock():
        member = replace(known, restores=True)
        agent_state.write(state_dir, member, box)
    return member


def existing_key(member: Membership, state_dir: str, home: AgentHome) -> IdentityKey:
    """A new key would not be the one that the fleet knows."""
    key = home.existing_key()
    if key is None:
        raise Corrupt(
            f"{state_dir} has lost the key with which {member.node} joined",
            remedy="restore the state directory from a backup of this machine, or join with a new token from: "
            f"holdfast node invite {member.node} --replace",
            code="agent_state_damaged",
        )
    return key


async def _ask(member: Membership, key: IdentityKey, home: AgentHome) -> JoinAnswer:
    link = home.link(member, key)
    try:
        answer = await link.join(JoinRequest(member.enrolment, member.node, member.roles, member.address, home.arch()))
    except Unreachable as trouble:
        trouble.remedy += "; then repeat the command: the token is still valid"
        raise
    finally:
        await link.close()
    if not answer.accepted:
        raise Conflict(
            f"the hub did not admit {member.node} to the fleet",
            remedy=f"ask for a new token: holdfast node invite {member.node}",
            code="not_registered",
        )
    return answer
