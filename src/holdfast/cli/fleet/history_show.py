"""`holdfast history show N`: one revision, as signed."""

from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.fleet.history import document, reachable_hub
from holdfast.cli.sizes import counted
from holdfast.cli.text import block
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model.applied import EMPTY_TABLE, content
from holdfast.model.record import Link
from holdfast.model.revision import Table, decode_table
from holdfast.ports.hub_link import HubReader

DETAILS = """\
--raw prints the exact signed bytes and nothing else; --signature prints the armoured signatures. Stock OpenSSH verifies
them:

  holdfast history show 3 --raw > revision && holdfast history show 3 --signature > revision.sig
  ssh-keygen -Y verify -f allowed_signers -I alice -n holdfast-revision -s revision.sig < revision

--files DIR writes fleet.toml, the services, the policies and the sealed secrets of that revision to DIR, which must not
exist or be empty. The ledger has no comments and no secret that nothing uses, so they are not written.
`rollback --write` puts the files into the fleet directory itself.

examples:
  holdfast history show 3
  holdfast history show 3 --json
  holdfast history show 3 --files ../fleet-at-3
"""


def declare(parser: Parser) -> None:
    parser.add_argument("number", metavar="N", type=int)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--raw", action="store_true", help="the exact signed bytes, nothing else")
    which.add_argument("--signature", action="store_true", help="one armoured SSHSIG per signature")
    parser.add_argument("--files", metavar="DIR", help="write its declared files and sealed secrets to a new directory")


def run(args: Namespace, box: Toolbox) -> int:
    if args.files and (args.raw or args.signature):
        raise Invalid(
            "--files cannot be used with --raw or --signature",
            remedy="`holdfast history show --help` shows the usage",
            code="usage",
        )
    hub = reachable_hub(args, box)
    link = _link(hub, args.number)
    if args.files:
        from holdfast.cli.documents import revision_files

        return revision_files.write(args.number, hub, args, box)
    if args.raw:
        box.terminal.say_exactly(link.header_bytes)
        return 0
    if args.signature:
        box.terminal.say_exactly("".join(link.signatures).encode())
        return 0
    found = document(hub.records(args.number, 1)[0])
    header = link.header
    found |= {"fleet": header.fleet, "parent": header.parent, "trust": header.trust, "manifests": header.manifests}
    found["resources"] = _resources(hub, link)
    if args.json:
        box.terminal.say_raw(msgspec.json.encode(found).decode())
        return 0
    lines = [f"revision {header.number}  {header.parent[:12] or 'genesis'} → {found['digest']}"]
    lines.append(f"committed {found['committed_at']}, grade {found['grade']}")
    lines += [f"message (not signed): {found['message']}"] * bool(found["message"])
    lines += [f"signed by {s['operator']} ({s['grade']}) {s['fingerprint']}" for s in found["signers"]]
    lines += [f"{kind} {address}" for address, kind in found["resources"].items()]
    lines.append(f"manifests for {counted(len(header.manifests), 'node')}: {', '.join(sorted(header.manifests)[:8])}")
    box.terminal.say(block(lines))
    return 0


def _resources(hub: HubReader, link: Link) -> dict[str, str]:
    """Address → what happened to it, by comparing the tables of this revision and its parent."""
    after = table_at(hub, link)
    number = link.header.number
    before = table_at(hub, hub.links(number - 1, number - 1)[0]) if number > 1 else EMPTY_TABLE
    found = {}
    for address in sorted(before.entries.keys() | after.entries.keys()):
        was, becomes = before.entries.get(address), after.entries.get(address)
        if was != becomes:
            moved = was is not None and becomes is not None and was.node != becomes.node
            found[address] = "create" if was is None else "remove" if becomes is None else "move" if moved else "update"
    return found


def table_at(hub: HubReader, link: Link) -> Table:
    blob = hub.blob(link.header.resources)
    known = {} if blob is None else {link.header.resources: blob}
    return decode_table(content(known, link.header.resources, f"the table of revision {link.header.number}"))


def _link(hub: HubReader, number: int) -> Link:
    head = hub.records(0, 1)[0].number
    if not 1 <= number <= head:
        raise Invalid(
            f"there is no revision {number}; revisions are 1 to {head}",
            remedy="`holdfast history` lists them",
            code="not_found",
        )
    return hub.links(number, number)[0]
