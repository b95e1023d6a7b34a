"""`holdfast ca bundle`: the issuing certificates of the nodes, as far as a signed revision vouches for them."""

import binascii
import os
from argparse import Namespace

import msgspec
from msgspec import UNSET, Struct

from holdfast.cli import session
from holdfast.cli.flags import Parser
from holdfast.cli.issuers import Read, reported, unfit
from holdfast.cli.terminal import harmless
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Invalid
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.checkin import NodesAnswer
from holdfast.ports.hub_link import FleetReader

DETAILS = """\
Every node issues the certificates of what it serves by itself; there is no authority above the nodes. A client trusts
exactly those issuers whose digest operators signed into the applied revision, and each only for the names of its role.
The hub hands the certificates out but cannot add one: what is not pinned is named and left out.

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
    parser.add_argument("-o", "--output", metavar="FILE", help="write the PEM there instead of on the terminal")


def run(args: Namespace, box: Toolbox) -> int:
    begun = session.begin(args, box)
    if begun.applied is None:
        raise Conflict(
            f"nothing was applied yet ({begun.target})",
            remedy="holdfast apply makes the first revision",
            code="nothing_applied",
        )
    if not isinstance(begun.hub, FleetReader):
        raise Invalid(
            f"{begun.target} is a ledger directory; it has the pins, but the certificates are with a running hub",
            remedy="name the hub: --hub https://HOST:9555",
            code="no_hub",
        )
    found = bundle(begun.hub.nodes(), begun.applied, box.certificate_facts, box.clock.now_s())
    text = "".join(one.pem for one in found.certificates)
    if args.output:
        box.disk.replace(os.path.abspath(args.output), text.encode("ascii"), 0o644)
    if args.json:
        box.terminal.say(msgspec.json.encode(found).decode())
    elif not args.output and text:
        box.terminal.say(text.rstrip("\n"))
    for one in found.left_out:
        box.terminal.warn(harmless(f"left out: node.{one.node}: {one.why}"))
    if not found.certificates:
        box.terminal.remark("No issuing certificate is pinned yet; holdfast apply records those of joined nodes.")
    return 0


def bundle(answer: NodesAnswer, applied: Applied, read: Read, now_s: float) -> Bundle:
    """The pins are what operators signed; the certificates may come from anybody, since a digest proves them."""
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
        return "its certificate is not pinned in the applied revision; holdfast apply records it"
    if canonical.digest(der) != pinned:
        return f"it reports {canonical.digest(der)[:12]}…, pinned is {pinned[:12]}…; holdfast plan shows the change"
    return None


def pem(der: bytes) -> str:
    text = binascii.b2a_base64(der, newline=False).decode("ascii")
    lines = (text[at : at + PEM_LINE_CHARS] for at in range(0, len(text), PEM_LINE_CHARS))
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""])
