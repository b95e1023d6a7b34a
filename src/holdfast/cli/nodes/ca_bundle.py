"""`holdfast ca bundle`: the issuing certificates of the nodes that are pinned in the signed revision."""

import binascii
import os
from argparse import Namespace

import msgspec
from msgspec import UNSET, Struct

from holdfast.cli.flags import Parser
from holdfast.cli.fleet import session
from holdfast.cli.nodes.issuers import Read, reported, unfit
from holdfast.cli.tools import Toolbox
from holdfast.errors import Invalid
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.node_view import NodesAnswer
from holdfast.ports.hub_link import FleetReader

DETAILS = """\
Every node issues the certificates of the services it serves; there is no authority above the nodes. A client trusts
exactly the issuers whose digest is in the applied revision, which operators signed, and each only for the names of its
role. The hub passes the certificates on but cannot add one: a certificate that is not pinned is reported and left out.

examples:
  holdfast ca bundle -o fleet-ca.pem
  curl --cacert fleet-ca.pem https://web.example.com/
  holdfast ca bundle --json
"""
PEM_LINE_CHARS = 64


class Vouched(Struct, frozen=True):
    node: str
    digest: str
    pem: str


class LeftOut(Struct, frozen=True):
    node: str
    why: str


class Bundle(Struct, frozen=True):
    certificates: tuple[Vouched, ...]
    left_out: tuple[LeftOut, ...]


def declare(parser: Parser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help="write the PEM to FILE instead of stdout")


def run(args: Namespace, box: Toolbox) -> int:
    begun = session.standing(args, box)
    if begun.applied is None:
        raise session.nothing_applied(begun.target)
    if not isinstance(begun.hub, FleetReader):
        raise Invalid(
            f"{begun.target} is a ledger directory: it has the pins, but only a running hub has the certificates",
            remedy="name the hub: --hub https://HOST:9555",
            code="no_hub",
        )
    found = bundle(begun.hub.nodes(), begun.applied, box.files.certificate, box.clock.now_s())
    text = "".join(one.pem for one in found.certificates)
    if args.output:
        box.disk.replace(os.path.abspath(args.output), text.encode("ascii"), 0o644)
    if args.json:
        box.terminal.say_raw(msgspec.json.encode(found).decode())
    elif not args.output and text:
        box.terminal.say_raw(text.rstrip("\n"))
    for one in found.left_out:
        box.terminal.warn(f"left out: node.{one.node}: {one.why}")
    if not found.certificates:
        box.terminal.remark("No issuing certificate is pinned yet; holdfast apply pins those of joined nodes.")
    return 0


def bundle(answer: NodesAnswer, applied: Applied, read: Read, now_s: float) -> Bundle:
    """Operators signed the pins. The source of the certificates does not matter, because a digest proves each."""
    views = {view.name: view for view in answer.nodes}
    vouched: list[Vouched] = []
    left_out: list[LeftOut] = []
    for address, entry in sorted(applied.table.entries.items()):
        kind, _, name = address.partition(".")
        if kind != "node":
            continue
        pinned = "" if entry.identity is UNSET else entry.identity.issuer
        der = reported(views.get(name))
        why = _unpinned(der, pinned) or unfit(der, name, applied, read, now_s)
        if why is None:
            vouched.append(Vouched(name, pinned, pem(der)))
        else:
            left_out.append(LeftOut(name, why))
    return Bundle(tuple(vouched), tuple(left_out))


def _unpinned(der: bytes, pinned: str) -> str | None:
    if not der:
        return "it has not reported a certificate" + (f"; {pinned[:12]}… is pinned" if pinned else "")
    if not pinned:
        return "its certificate is not pinned in the applied revision; holdfast apply pins it"
    if canonical.digest(der) != pinned:
        return f"it reports {canonical.digest(der)[:12]}…, but {pinned[:12]}… is pinned; holdfast plan shows the change"
    return None


def pem(der: bytes) -> str:
    text = binascii.b2a_base64(der, newline=False).decode("ascii")
    lines = (text[at : at + PEM_LINE_CHARS] for at in range(0, len(text), PEM_LINE_CHARS))
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""])
