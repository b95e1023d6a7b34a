"""`holdfast agent check`: verify the state directory of an agent. Changes nothing; works beside a running agent."""

import os
import stat
from argparse import Namespace
from collections.abc import Callable, Iterator
from shlex import quote

import msgspec

from holdfast.agent.acceptance import manifest
from holdfast.agent.membership import Membership
from holdfast.cli.agent import agent_state
from holdfast.cli.flags import Parser
from holdfast.cli.hub.show_finding import documents, for_pasting
from holdfast.cli.text import block
from holdfast.cli.tools import Toolbox
from holdfast.errors import Corrupt, HoldfastError
from holdfast.model import canonical
from holdfast.model.revision import NO_HEAD
from holdfast.ports.acceptance import Acceptance, Accepted
from holdfast.trust import chain

DETAILS = """\
Checks the file modes of the state directory, the node's key, the chain of accepted revisions with every signature, the
manifest in force, the journal, and the audit log with its hash chain. Exit 0: no problem found; 7: something is wrong.

examples:
  holdfast agent check
  holdfast agent check --state-dir /var/lib/holdfast/agent --json
"""


REJOIN = "join again with a new token: holdfast agent join TOKEN"


class Finding(msgspec.Struct, frozen=True):
    code: str
    message: str
    remedy: str


# account at the public certificate authority, files of the archiver, requests to mount, proxy state, route certificates
FOLDERS = ("acme", "backups", "mounts", "proxy", "routes")


def declare(parser: Parser) -> None:
    agent_state.declare_state_dir(parser)


def run(args: Namespace, box: Toolbox) -> int:
    member = agent_state.required(args.state_dir, box)
    facts: dict[str, int] = {}
    findings = [
        *_modes(args.state_dir),
        *_findings_of(lambda: _key(args.state_dir, member, box)),
        *_findings_of(lambda: _stores(args.state_dir, member, box, facts)),
        *_findings_of(lambda: _audit(args.state_dir, box, facts)),
    ]
    if args.json:
        said = {"sound": not findings, "node": member.node, **facts, "findings": documents(findings, box.terminal)}
        box.terminal.say_raw(msgspec.json.encode(said).decode())
    elif findings:
        for one in findings:
            remedy = f"  remedy: {for_pasting(one.remedy, box.terminal)}"
            box.terminal.say(block((f"{one.code}: {one.message}", remedy)))
    else:
        counted = ", ".join(f"{name} {number}" for name, number in facts.items())
        box.terminal.say(f"sound: {member.node}, {counted}")
    return Corrupt.exit_code if findings else 0


def _findings_of(look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """The findings of one check. An error of the check is a finding too, so the other checks still run."""
    try:
        return list(look())
    except HoldfastError as trouble:
        return [Finding(trouble.code, trouble.message, trouble.remedy)]


def _modes(state_dir: str) -> Iterator[Finding]:
    if stat.S_IMODE(os.stat(state_dir).st_mode) & 0o077:
        yield Finding("mode", f"other users than the owner can read {state_dir}", f"chmod 700 {quote(state_dir)}")
    for name in sorted(os.listdir(state_dir)):
        path = os.path.join(state_dir, name)
        try:
            about = os.lstat(path)
        except FileNotFoundError:  # a running agent writes each file under another name first
            continue
        if name in FOLDERS and stat.S_ISDIR(about.st_mode):
            if stat.S_IMODE(about.st_mode) & 0o077:
                yield Finding("mode", f"other users than the owner can read {path}", f"chmod 700 {quote(path)}")
        elif not stat.S_ISREG(about.st_mode):
            yield Finding("mode", f"{path} is not a plain file", f"look at it, then remove it: ls -l {quote(path)}")
        elif stat.S_IMODE(about.st_mode) & 0o077:
            yield Finding("mode", f"other users than the owner can read {path}", f"chmod 600 {quote(path)}")


def _key(state_dir: str, member: Membership, box: Toolbox) -> Iterator[Finding]:
    key = box.agents.at(state_dir).existing_key()
    if key is None or key.line not in member.enrolment.joining.decode("utf-8", "replace"):
        missing = "is missing" if key is None else "is not the one this node joined with"
        yield Finding("key", f"the node's key {missing}", f"restore it from a backup, or {REJOIN}")


def _stores(state_dir: str, member: Membership, box: Toolbox, facts: dict[str, int]) -> Iterator[Finding]:
    opened = box.agents.at(state_dir).stores()
    if opened is None:
        return
    journal, acceptance = opened
    for sentence in journal.check():
        yield Finding("journal", sentence, "restore the state directory from a backup of this machine")
    facts["operations"] = len(journal.entries(10_000))
    facts["unfinished"] = len(journal.unfinished())
    newest = acceptance.newest()
    facts["revision"] = newest.head.number if newest else 0
    if newest is not None:
        yield from _accepted(member, acceptance, newest)


def _accepted(member: Membership, acceptance: Acceptance, newest: Accepted) -> Iterator[Finding]:
    links = acceptance.links(1, newest.head.number)
    reached = chain.walk(chain.Anchor(member.fleet, NO_HEAD, None), links)
    if reached.head != newest.head:
        yield Finding("chain_broken", "the accepted chain does not end with the accepted head", REJOIN)
    if newest.manifest and newest.link.header.manifests.get(member.node) != canonical.digest(newest.manifest):
        yield Finding("manifest", "the accepted manifest is not the one that was signed", REJOIN)
    if newest.in_force:
        for digest in manifest.needed(manifest.decode_manifest(newest.in_force)):
            if acceptance.blob(digest) is None:
                yield Finding("content", f"the content {digest[:12]}… is missing", REJOIN)


def _audit(state_dir: str, box: Toolbox, facts: dict[str, int]) -> Iterator[Finding]:
    facts["audit_entries"] = box.agents.at(state_dir).verified_audit().number
    yield from ()
